"""Forwards to `stayer.worker.threads`, as the package around it."""
