"""Patterns of names and of programs: `*`, `?`, `[abc]`, `[a-z]`, `[!a]`, the same on every store.

In the pattern of a program neither of them stands for a slash, so that `/opt/tools/*` means what is
in that folder, not what is below it; and a pattern without a slash means programs that are called
by their name alone. In the pattern of a place neither of them stands for the slash behind its host.
In names a slash is a character like any other.

Matching takes time in proportion to the word: whoever submits a task chooses the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

LONGEST_WORD = 4096
"""In bytes. No path is longer, and what is longer matches no pattern."""
ANYTHING = "*"
"""As the whole pattern: whatever it is, and wherever a program is."""
_SPECIAL = frozenset("*?[")


class Star(Struct, frozen=True):
    """Any characters, or none."""


class OneOf(Struct, frozen=True):
    """One character: of these ranges of code points, or of all others."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


ANY = OneOf((), negated=True)
Piece: TypeAlias = str | Star | OneOf


def is_literal(pattern: str) -> bool:
    """Return whether the pattern matches just itself."""
    return _SPECIAL.isdisjoint(pattern)


def literal(word: str) -> str:
    """Return the pattern that matches just this word."""
    return "".join(f"[{each}]" if each in _SPECIAL else each for each in word)


def is_too_long(word: str) -> bool:
    """Return whether the word is too long for any pattern to match it."""
    if len(word) <= LONGEST_WORD // 4:
        return False
    return len(word) > LONGEST_WORD or len(word.encode("utf-8", "surrogatepass")) > LONGEST_WORD


def matches(word: str, pattern: str, *, as_path: bool = False) -> bool:
    """Return whether the pattern stands for the word; `as_path`: it is the pattern of a program."""
    if is_too_long(word):
        return False
    if is_literal(pattern):
        return word == pattern
    return _compile(pattern, as_path).fullmatch(word) is not None


def matches_place(place: str, pattern: str) -> bool:
    """Return whether the pattern stands for the place, `HOST/PATH`. Nothing in that of a host
    stands for a slash: `*.example.org/*` is no folder of another host.
    """
    host, slash, path = place.partition("/")
    wanted_host, wanted_slash, wanted_path = pattern.partition("/")
    is_host = slash == wanted_slash and matches(host, wanted_host)
    return is_host and matches(path, wanted_path)


def any_matches(word: str, patterns: Sequence[str], *, as_path: bool = False) -> bool:
    """Return whether one of them stands for the word."""
    if ANYTHING in patterns:
        return True
    return any(matches(word, pattern, as_path=as_path) for pattern in patterns)


@lru_cache(maxsize=256)
def pieces(pattern: str) -> tuple[Piece, ...]:
    """Return what the pattern is made of; a text is itself."""
    found: list[Piece] = []
    for piece in _split(pattern):
        last = found[-1] if found else None
        if isinstance(piece, str) and isinstance(last, str):
            found[-1] = last + piece
        elif not (isinstance(piece, Star) and isinstance(last, Star)):
            found.append(piece)
    return tuple(found)


def _split(pattern: str) -> Iterator[Piece]:
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        end = _end_of_set(pattern, position) if character == "[" else -1
        if character == "*":
            yield Star()
        elif character == "?":
            yield ANY
        elif end >= 0:
            yield _set(pattern[position:end])
            position = end + 1
        else:
            yield character


def _end_of_set(pattern: str, position: int) -> int:
    """Return where a set ends. A bracket right after the opening one, or after its `!`, does not
    close it.
    """
    return pattern.find("]", position + (2 if pattern[position : position + 1] == "!" else 1))


def _set(inside: str) -> OneOf:
    negated = inside.startswith("!")
    inside = inside[negated:]
    ranges: list[tuple[int, int]] = []
    position = 0
    while position < len(inside):
        first = last = inside[position]
        position += 1
        if position + 1 < len(inside) and inside[position] == "-":
            last = inside[position + 1]
            position += 2
        if first <= last:  # one that runs backwards is empty
            ranges.append((ord(first), ord(last)))
    return OneOf(tuple(ranges), negated)


@lru_cache(maxsize=256)
def _compile(pattern: str, as_path: bool) -> re.Pattern[str]:
    """Compile a pattern. What follows a star is looked for once, where it comes first: no later
    place would do better, because the next star can stand for whatever is left in between.
    """
    some = "[^/]*" if as_path else ".*"
    not_slash = "(?!/)" if as_path else ""
    chunks: list[list[str]] = [[]]
    for piece in pieces(pattern):
        match piece:
            case Star():
                chunks.append([])
            case OneOf(ranges=ranges, negated=negated):
                chunks[-1].append(f"{not_slash}{_one_of(ranges, negated)}")
            case str():
                chunks[-1].append(re.escape(piece))
    first, *rest = ("".join(chunk) for chunk in chunks)
    if not rest:
        return re.compile(first, re.DOTALL)
    *between, last = rest
    middle = "".join(f"(?>{some}?{chunk})" for chunk in between)
    return re.compile(f"{first}{middle}{some}{last}", re.DOTALL)


def _one_of(ranges: Sequence[tuple[int, int]], negated: bool) -> str:
    if not ranges:
        return "." if negated else "(?!)"
    inside = "".join(f"{re.escape(chr(a))}-{re.escape(chr(b))}" for a, b in ranges)
    return f"[{'^' if negated else ''}{inside}]"
