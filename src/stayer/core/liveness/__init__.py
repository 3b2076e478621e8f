"""When a worker counts as dead: what others see of its heartbeats."""
