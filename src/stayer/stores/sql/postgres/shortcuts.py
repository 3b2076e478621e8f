"""Where to begin to look for tasks while very many that were taken can't be cleared away.

An open transaction, anybody's, keeps PostgreSQL from removing what tasks that were taken have left
in the index, and each reserve would pass by all of it. So whoever has found that remembers for a
moment which lanes there were and where the best task stood, and begins there. What comes before
that place meanwhile (a task that was returned) has to wait for that moment, if there is enough
else to take. The figures are in docs/decisions/0025-postgresql.md.
"""

from __future__ import annotations

import time
from threading import Lock

from msgspec import Struct

from stayer.stores.sql.forking import mind_forks

Place = tuple[int, float, int]
"""Priority, created, seq."""
_LONG = 1.0
"""For how long what was seen is gone by, in seconds."""


class _Seen(Struct):
    until: float
    place: Place


class Shortcuts:
    """What this process has seen of queues that are slow to look through."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Seen] = {}
        self._lanes: dict[str, list[str]] = {}
        self.after_fork()
        mind_forks(self)

    def after_fork(self) -> None:
        """Another thread may have had the lock."""
        self._guard = Lock()

    def place(self, queue: str, lane: str) -> Place | None:
        """Where to begin in a lane; None: at its beginning."""
        if not self._places:
            return None
        with self._guard:
            seen = self._places.get((queue, lane))
            return seen.place if seen is not None and time.monotonic() < seen.until else None

    def begin_at(self, queue: str, lane: str, place: Place, *, anew: bool) -> None:
        """The best task stands there; `anew` if that is by a look from the beginning."""
        with self._guard:
            seen = self._places.get((queue, lane))
            if anew or seen is None:
                self._places[queue, lane] = _Seen(time.monotonic() + _LONG, place)
            else:
                seen.place = place

    def end(self, queue: str, lane: str) -> None:
        """It is quick to look from the beginning again."""
        if self._places:
            with self._guard:
                self._places.pop((queue, lane), None)

    def see_lanes(self, queue: str, lanes: list[str]) -> None:
        """These there were by a full look."""
        with self._guard:
            self._lanes[queue] = lanes

    def lanes(self, queue: str) -> list[str] | None:
        """The lanes of a queue that has but one, while there is a place to begin in it."""
        lanes = self._lanes.get(queue) if self._places else None
        if lanes is None or len(lanes) != 1 or self.place(queue, lanes[0]) is None:
            return None
        return lanes
