"""Notices: whom to tell when a task ends, and what was told."""
