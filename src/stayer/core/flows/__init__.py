"""Flows: tasks that depend on each other, as a plan, as JSON and as a record."""
