"""Which tasks a pool is at, in a file that outlives it: memory that worker and pool share.

When the pool is gone, the worker learns from it what had begun: that may be what killed it.
"""

from __future__ import annotations

import mmap
from pathlib import Path

_PLACE_BYTES = 1024
"""Bytes a place: the length of an entry, then the entry, ATTEMPT ID."""
_EMPTY_PLACE = bytes(2)


class InFlightFile:
    """One place for each task that runs at the same time."""

    def __init__(self, path: Path, places: int) -> None:
        """Empties it."""
        path.write_bytes(bytes(places * _PLACE_BYTES))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._free = list(range(places))

    def enter(self, id: str, attempt: int) -> int:
        """Write that it begins; return its place."""
        place = self._free.pop() * _PLACE_BYTES
        self.replace(place, id, attempt)
        return place

    def replace(self, place: int, id: str, attempt: int) -> None:
        """Write that it begins where another has ended."""
        entry = f"{attempt} {id}".encode()[: _PLACE_BYTES - 2]
        memory = self._memory
        memory[place : place + 2] = _EMPTY_PLACE
        memory[place + 2 : place + 2 + len(entry)] = entry
        memory[place : place + 2] = len(entry).to_bytes(2, "little")  # last: now it counts

    def leave(self, place: int) -> None:
        """Write that it has ended."""
        self._memory[place : place + 2] = _EMPTY_PLACE
        self._free.append(place // _PLACE_BYTES)


def read_in_flight(path: Path) -> set[tuple[str, int]]:
    """Return who was at it when the pool went: ids and attempts."""
    try:
        data = path.read_bytes()
    except OSError:
        return set()
    found = set()
    for start in range(0, len(data), _PLACE_BYTES):
        length = int.from_bytes(data[start : start + 2], "little")
        if length:
            entry = data[start + 2 : start + 2 + length].decode(errors="replace")
            attempt, _, id = entry.partition(" ")
            found.add((id, int(attempt)))
    return found
