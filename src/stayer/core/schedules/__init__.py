"""Schedules: their model, how they are written, and when they fire."""
