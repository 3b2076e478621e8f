"""What is not installed with Stayer itself, and how to get it."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Name the command that installs an extra. The one place to change once Stayer is published."""
    return f"pip install '.[{extra}]' in a checkout of Stayer"
