"""Numbers as scripts write them. Python's own readers take much that neither Lua nor Redis does:
`1_0`, `inf`, `nan`, spaces, and integers of any length.
"""

from __future__ import annotations

import re

MOST = 2**53
"""Beyond this, Lua's numbers are no integers any more."""
LAST = 10**12 - 1
"""The number of an event: in members of lists it has twelve digits."""
_INTEGER = re.compile(rb"-?[0-9]{1,16}")
_NUMBER = re.compile(rb"-?[0-9]{1,17}(\.[0-9]{1,24})?(e[+-][0-9]{1,3})?")
"""A number as `%.17g` writes it, and Python's `repr`."""


def integer(value: bytes, most: int = MOST) -> int:
    """Read a whole number; raises ValueError if it is none, or too large."""
    if not _INTEGER.fullmatch(value) or abs(int(value)) > most:
        raise ValueError("it is no integer, or too large")
    return int(value)


def number(value: bytes) -> float:
    """Read a number that may have a fraction."""
    if not _NUMBER.fullmatch(value) or abs(float(value)) > MOST:
        raise ValueError("it is no number, or too large")
    return float(value)
