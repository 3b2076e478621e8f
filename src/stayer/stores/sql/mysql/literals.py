"""Values as SQL has them. Drivers for MySQL put values into the text of a statement themselves;
here that is done for a whole packet of statements at once, and for lists.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from stayer.core.errors import BadInput
from stayer.stores.sql.transaction import Cell

_LARGEST = sys.float_info.max
_RAW = b"\xff"
"""In front of bytes in a column that may also have text: no text begins so."""
_COMPRESSED = b"\xfe"
"""What was compressed begins so (`core/codec.py`), and no text either."""


class Items(tuple[str | int, ...]):
    """A list that is one parameter."""


def literal(value: Cell) -> bytes:
    """One value."""
    match value:
        case None:
            return b"NULL"
        case bool():
            return b"1" if value else b"0"
        case str():
            return b"'" + value.encode().replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
        case int():
            return b"%d" % value
        case float():
            return _real(value)
        case bytes() | bytearray() | memoryview():
            escaped = bytes(value).replace(b"\\", b"\\\\").replace(b"'", b"''")
            return b"_binary'" + escaped + b"'"
        case _:
            raise BadInput(f"a column can't hold a {type(value).__name__}")


def _real(value: float) -> bytes:
    """Write a double: the exponent makes it one, else it is a decimal that is rounded later. There
    are no infinite ones: the largest is as good to compare with.
    """
    if math.isnan(value):
        raise BadInput("a column can't hold what is not a number")
    text = repr(max(-_LARGEST, min(value, _LARGEST)))
    return (text if "e" in text else f"{text}e0").encode()


def items(values: Sequence[str | int]) -> bytes:
    """What follows IN. A list of nothing is a query that finds nothing: NULL would make NOT IN
    unknown."""
    if not values:
        return b"(SELECT NULL FROM DUAL WHERE FALSE)"
    return b"(" + b",".join(map(literal, values)) + b")"


def rows(values: Sequence[str | int]) -> bytes:
    """A table with the column `value`."""
    if not values:
        return b"(SELECT NULL AS value FROM DUAL WHERE FALSE)"
    first, *others = map(literal, values)
    return (
        b"(SELECT "
        + first
        + b" AS value"
        + b"".join(b" UNION ALL SELECT " + each for each in others)
        + b")"
    )


def pairs(one: bytes, ones: Sequence[str], other: bytes, others: Sequence[str]) -> bytes:
    """Both columns have the values that stand at the same place of the lists."""
    both = (
        b"(%b = %b AND %b = %b)" % (one, literal(each), other, literal(that))
        for each, that in dict.fromkeys(zip(ones, others, strict=True))
    )
    return b"(" + (b" OR ".join(both) or b"FALSE") + b")"


def distinct(value: str | bytes | None) -> str | bytes | None:
    """Text, or bytes that no text can be taken for."""
    if isinstance(value, bytes) and not value.startswith(_COMPRESSED):
        return _RAW + value
    return value


def unpack(cell: bytes | None) -> str | bytes | None:
    """What `distinct` has made of it, or somebody else by hand."""
    if cell is None or cell.startswith(_RAW):
        return cell and cell[1:]
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell
