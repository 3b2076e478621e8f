"""Writes the signatures of public functions and methods into the reference of Python.

`python docs/python_signatures.py` writes them, `--check` only says whether they are up to date. It
repairs calls that are on the page already; a test says which are missing.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import stayer

PAGE = Path(__file__).parent / "reference" / "python.md"
CLASSES: dict[str, type] = {
    "## Client": stayer.Client,
    "## Queue": stayer.Queue,
    "## TaskHandle": stayer.TaskHandle,
    "## Flow": stayer.Flow,
    "## FlowHandle": stayer.FlowHandle,
    "## Listener": stayer.Listener,
    "## Processor": stayer.Processor,
    "## App": stayer.App,
    "### TaskFunction": stayer.TaskFunction,
    "## Context": stayer.Context,
}
"""What each part of the page is about."""
_CALL = re.compile(r"^\| `(\w+)\(.*?\)` \|")


def signature(name: str, function: Callable[..., object]) -> str:
    """A call as the page writes it: names and defaults, no types."""
    found = inspect.signature(function)
    bare = [
        parameter.replace(annotation=parameter.empty)
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return f"{name}{found.replace(parameters=bare, return_annotation=found.empty)}"


def method(kind: type, name: str) -> Callable[..., object] | None:
    """The function behind a method; None if there is none of that name."""
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    return found if inspect.isfunction(found) else None


def text(page: str) -> str:
    """The page with all calls as they are now."""
    kind: type | None = None
    known: set[tuple[type, str]] = set()
    lines = page.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("#"):
            kind = CLASSES.get(line)
        call = _CALL.match(line)
        if kind is None or call is None or (function := method(kind, call[1])) is None:
            continue
        if (kind, call[1]) in known:  # another way to call it
            continue
        known.add((kind, call[1]))
        lines[at] = f"| `{signature(call[1], function)}` |{line[call.end() :]}"
    return "\n".join(lines)


def main() -> None:
    """Write the page, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = text(page)
    if "--check" not in sys.argv:
        PAGE.write_text(fresh, encoding="utf-8")
    elif fresh != page:
        sys.exit(f"{PAGE.name} is not up to date: python docs/python_signatures.py")


if __name__ == "__main__":
    main()
