"""Signals and JSON without the modules `signal` and `json`, which bring half the library along.

Each object that a process touches costs it a page of memory, and there is a keeper for every task:
the less there is in a nursery, the closer together lies what its keepers need.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    Content = dict[str, Any]
    """What a JSON file holds."""
else:
    import _signal as signal

    Content = dict

__all__ = ["TYPE_CHECKING", "Content", "dumps", "loads", "signal", "signal_number"]

_WORDLESS = ("nan", "inf", "-inf")


class _Rules:
    """What the scanner asks: as the module `json` has it."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


_scan = make_scanner(_Rules)  # type: ignore[arg-type]


def loads(data: bytes) -> Content:
    """A JSON object; ValueError if it is none."""
    text = data.decode().strip()
    try:
        found, end = _scan(text, 0)
    except (StopIteration, SystemError):  # what it would raise is in a module that is not loaded
        raise ValueError("not JSON") from None
    if end != len(text) or not isinstance(found, dict):
        raise ValueError("not one JSON object")
    return found


def dumps(value: object) -> str:
    """As JSON. Of numbers, those that it has no word for become null."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        rows = (f"{encode_basestring_ascii(str(key))}: {dumps(value[key])}" for key in value)
        return "{" + ", ".join(rows) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dumps, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return "null" if value is None or text in _WORDLESS else text


def signal_number(name: str) -> int:
    """0 if there is no signal of that name: it reaches nobody."""
    return int(getattr(signal, name, 0)) if name.startswith("SIG") and "_" not in name else 0
