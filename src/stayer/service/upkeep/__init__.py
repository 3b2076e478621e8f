"""Upkeep: what has to be done when time passes, by whoever is there."""
