"""What a process remembers of queues, so that it need not ask: how they were when it last looked,
and where to begin to look for tasks while very many that were taken can't be cleared away.

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
_SEEN_VALID_S = 1.0
"""For how long what was seen is gone by, in seconds."""


MOST_LANES = 16
"""How many lanes of a queue are remembered."""


class _Seen(Struct):
    until: float
    place: Place


class Shortcuts:
    """What this process has seen of queues that are slow to look through."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Seen] = {}
        self._lanes: dict[str, list[str]] = {}
        self._known: dict[str, list[str]] = {}
        self._nodes: dict[str, str] = {}
        self._open: set[str] = set()
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
                self._places[queue, lane] = _Seen(time.monotonic() + _SEEN_VALID_S, place)
            else:
                seen.place = place

    def end(self, queue: str, lane: str) -> None:
        """It is quick to look from the beginning again."""
        if self._places:
            with self._guard:
                self._places.pop((queue, lane), None)

    def see_lanes(self, queue: str, lanes: list[str]) -> None:
        """These there were by a full look; some more that were seen before may come again."""
        with self._guard:
            self._lanes[queue] = lanes
            known = {*lanes, *self._known.get(queue, ())}
            self._known[queue] = sorted(known if len(known) <= MOST_LANES else lanes)

    def see(self, worker: str, node: str, queue: str, is_open: bool) -> None:
        """A worker on this node takes from a queue, and whether that is one without settings."""
        with self._guard:
            self._nodes[worker] = node
            if is_open:
                self._open.add(queue)
            else:
                self._open.discard(queue)

    def forget(self, queue: str) -> None:
        """It is not as it was."""
        with self._guard:
            self._open.discard(queue)

    def usual(self, worker: str, queue: str) -> tuple[str, list[str]] | None:
        """The worker's node and the lanes of a queue, as they were seen, if the queue had no
        settings when it was last looked at, and is quick to look through.
        """
        node, lanes = self._nodes.get(worker), self._known.get(queue)
        if node is None or lanes is None or len(lanes) > MOST_LANES or queue not in self._open:
            return None
        if self._places and any(self.place(queue, lane) is not None for lane in lanes):
            return None
        return node, lanes

    def lanes(self, queue: str) -> list[str] | None:
        """The lanes of a queue, while there is a place to begin in one of them."""
        lanes = self._lanes.get(queue) if self._places else None
        if lanes is None or not any(self.place(queue, lane) for lane in lanes):
            return None
        return lanes
