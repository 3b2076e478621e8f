"""What a worker can run, as the scripts understand it (see lib/patterns.lua)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stayer.core.patterns import ANY, ANYTHING, Piece, Star, is_literal, pieces
from stayer.core.worker_model import EVERYTHING, Handles
from stayer.stores.redis.record import Raw

ANY_PIECE, STAR_PIECE = 1, 2
"""What stands for any character, and for any number of them, among the pieces of a pattern."""


@lru_cache(maxsize=64)
def pack_handles(handles: Handles) -> Raw:
    """Pack (everything, plain, names, patterns of names, programs, patterns of programs)."""
    if handles == EVERYTHING:
        return (True,)
    return (False, handles.plain, *_words(handles.names), *_words(handles.programs))


def _words(patterns: Sequence[str]) -> tuple[Raw, Raw]:
    if ANYTHING in patterns:
        return True, ()
    words = [pattern for pattern in patterns if is_literal(pattern)]
    return words, [pack_pattern(pattern) for pattern in patterns if not is_literal(pattern)]


def pack_pattern(pattern: str) -> Raw:
    """Pack (beginning, end, pieces between them, or False for one star)."""
    found = pieces(pattern)
    head = found[0] if found and isinstance(found[0], str) else ""
    found = found[1:] if head else found
    tail = found[-1] if found and isinstance(found[-1], str) else ""
    found = found[:-1] if tail else found
    if found == (Star(),):
        return head, tail, False
    return head, tail, [part for piece in found for part in _parts(piece)]


def _parts(piece: Piece) -> list[Raw]:
    if isinstance(piece, str):
        return list(piece)
    if isinstance(piece, Star):
        return [STAR_PIECE]
    if piece == ANY:
        return [ANY_PIECE]
    return [[piece.negated, *(code for pair in piece.ranges for code in pair)]]
