"""Forwards to `stayer.task`, for running workers of the version before. The next one drops it."""
