"""What a worker can run, as the scripts understand it: shell-style patterns become Lua's.

Lua matches bytes. So that `?` and `[…]` mean a character, a character is its first byte and the
bytes that continue it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from stayer.core.errors import BadInput
from stayer.core.model import EVERYTHING, Handles
from stayer.stores.redis.record import Raw

_CONTINUED = "\x01"
"""Stands for the range of those bytes, which are no text by themselves; the script puts them in."""
_REST = f"[{_CONTINUED}]*"
_ANY = f"[^{_CONTINUED}]{_REST}"
_SPECIAL = frozenset("*?[")


@lru_cache(maxsize=64)
def packed(handles: Handles) -> Raw:
    """(everything, plain, names, patterns of names, programs, patterns of programs)."""
    if handles == EVERYTHING:
        return (True,)
    return (False, handles.plain, *_split(handles.names), *_split(handles.programs))


def _split(patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    words = [pattern for pattern in patterns if not _SPECIAL.intersection(pattern)]
    rest = [pattern for pattern in patterns if _SPECIAL.intersection(pattern)]
    return words, [translated for pattern in rest for translated in lua_patterns(pattern)]


def lua_patterns(pattern: str) -> list[str]:
    """Lua patterns of which one matches just where the shell-style pattern does."""
    found = ["^"]
    for choices in _pieces(pattern):
        found = [begun + choice for begun in found for choice in choices]
    return [f"{each}$" for each in found]


def _pieces(pattern: str) -> Iterator[list[str]]:
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        end = pattern.find("]", position + _skipped(pattern, position)) if character == "[" else -1
        if character == "*":
            yield [".*"]
        elif character == "?":
            yield [_ANY]
        elif end >= 0:
            yield _choices(pattern, pattern[position:end])
            position = end + 1
        else:
            yield [_escaped(character)]


def _skipped(pattern: str, position: int) -> int:
    """A bracket right after the opening one, or after its `!`, does not close it."""
    return 2 if pattern[position : position + 1] == "!" else 1


def _choices(pattern: str, inside: str) -> list[str]:
    negated = inside.startswith("!")
    inside = inside[negated:]
    if not inside.isascii() and (negated or "-" in inside[1:-1]):
        raise BadInput(
            f"pattern {pattern!r}: with Redis, a range or ! in brackets is for ASCII characters: "
            "name the others one by one"
        )
    ascii_part = _set("".join(character for character in inside if character.isascii()))
    if negated:
        return [f"[^{ascii_part}{_CONTINUED}]{_REST}"]
    others = [character for character in inside if not character.isascii()]
    return ([f"[{ascii_part}]"] if ascii_part else []) + others


def _set(inside: str) -> str:
    """The inside of a Lua set, ranges spelt out: one that runs backwards is empty, as elsewhere."""
    parts: list[str] = []
    position = 0
    while position < len(inside):
        if position + 2 < len(inside) and inside[position + 1] == "-":
            first, last = inside[position], inside[position + 2]
            parts += (_escaped(chr(code)) for code in range(ord(first), ord(last) + 1))
            position += 3
        else:
            parts.append(_escaped(inside[position]))
            position += 1
    return "".join(parts)


def _escaped(character: str) -> str:
    return character if character.isalnum() or not character.isascii() else f"%{character}"
