"""What every interface and every worker stands on: the verbs, leases, upkeep, degraded stores."""
