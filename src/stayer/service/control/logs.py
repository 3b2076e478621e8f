"""Reading the log of an attempt, the same for every door."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stayer.core.model import LogPiece
from stayer.store import ReadStore

READ_BYTES = 1_000_000
"""How many bytes of a log are read at a time."""


def read(store: ReadStore, id: str, attempt: int, start: int = 0) -> Iterator[LogPiece]:
    """Read all pieces of an attempt's log that are there, from the offset on."""
    while pieces := store.log(id, attempt, start, READ_BYTES):
        yield from pieces
        start = pieces[-1].start + len(pieces[-1].data)


def beginning_of_tail(pieces: Sequence[LogPiece], lines: int) -> int:
    """Find the offset at which the last so many lines of a log begin. Newlines are counted, not
    visited one by one: a log may have millions of them.
    """
    if not pieces:
        return 0
    if lines <= 0:
        return pieces[-1].start + len(pieces[-1].data)
    wanted = lines + pieces[-1].data.endswith(b"\n")  # what ends the last line begins none
    for piece in reversed(pieces):
        found = piece.data.count(b"\n")
        if found >= wanted:
            return piece.start + len(piece.data.rsplit(b"\n", wanted)[0]) + 1
        wanted -= found
    return pieces[0].start
