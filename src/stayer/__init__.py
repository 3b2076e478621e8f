"""Stayer: a job queue for work that takes minutes, hours or days."""

__version__ = "0.1.0"
