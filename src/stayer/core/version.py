"""The version, at the bottom of the house: every layer tells it."""

__version__ = "0.1.0"
