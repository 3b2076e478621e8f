"""Who submits a task, in a few words that its record has."""

from __future__ import annotations

import os
import sys

from stayer.core.limits import WORD


def describe_process(user: str) -> str:
    """Describe this process: `ann@desk train.py[4711]`."""
    folder, program = os.path.split(sys.argv[0] if sys.argv else "")
    if program == "__main__.py":  # of `python -m package`
        program = os.path.basename(folder)
    if program in ("", "-c"):
        program = "python"
    return _tidy(f"{user}@{os.uname().nodename} {program[:100]}[{os.getpid()}]")


def describe_token(name: str, address: str | None) -> str:
    """Describe whoever comes over HTTP: `token ci at 10.0.0.7`."""
    return _tidy(f"token {name} at {address}" if address else f"token {name}")


def _tidy(text: str) -> str:
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return shown.strip()[:WORD].strip()
