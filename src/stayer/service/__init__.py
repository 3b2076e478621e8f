"""What every door and every worker stands on: the verbs, leases, upkeep, degraded stores."""
