"""Which task comes next: lanes, fair share, rate limits, affinity to a node."""
