"""What functions of other queues can do, and what to use here."""

from __future__ import annotations

_HERE = {
    "apply_async": "submit(…), and options(delay=…, queue=…) before it",
    "delay": "submit(…)",
    "enqueue": "submit(…)",
    "send": "submit(…)",
    "send_with_options": "options(…).submit(…)",
    "si": "s(…)",
}


def elsewhere(name: str) -> str:
    """Return what to add to the error about this attribute of a task function."""
    return f": use {_HERE[name]}" if name in _HERE else ""
