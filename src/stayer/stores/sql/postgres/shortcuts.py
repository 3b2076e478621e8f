"""What a process remembers of queues, so that it need not ask: how they were when it last looked,
and where to begin to look for tasks while very many that were taken can't be cleared away.

An open transaction, anybody's, keeps PostgreSQL from removing what tasks that were taken have left
in the index, and each reserve would pass by all of it. So whoever has found that remembers for a
moment which lanes there were and where the best task stood, and begins there. What comes before
that place meanwhile (a task that was returned) has to wait for that moment, if there is enough
else to take. The figures are in docs/decisions/0025-postgresql.md.
"""

from __future__ import annotations

from threading import Lock
from time import monotonic

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
    lanes: list[str]
    places: dict[str, Place]


class Shortcuts:
    """What this process has seen of queues that are slow to look through."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._known: dict[str, list[str]] = {}
        self._nodes: dict[str, str] = {}
        self._open: set[str] = set()
        self.after_fork()
        mind_forks(self)

    def after_fork(self) -> None:
        """Another thread may have had the lock."""
        self._guard = Lock()

    def see_lanes(self, queue: str, lanes: list[str]) -> None:
        """These there were by a full look; some more that were seen before may come again. All
        that is seen of the queue from now on is valid as long as that, and no longer: however many
        tasks there are in these lanes, others must not wait for long.
        """
        with self._guard:
            self._seen[queue] = _Seen(monotonic() + _SEEN_VALID_S, lanes, {})
            known = {*lanes, *self._known.get(queue, ())}
            self._known[queue] = sorted(known if len(known) <= MOST_LANES else lanes)

    def begin_at(self, queue: str, lane: str, place: Place) -> None:
        """The best task of a lane stands there."""
        with self._guard:
            if queue in self._seen:
                self._seen[queue].places[lane] = place

    def end(self, queue: str) -> None:
        """It is quick to look from the beginning again."""
        with self._guard:
            if queue in self._seen:
                self._seen[queue].places.clear()

    def lanes(self, queue: str) -> list[str] | None:
        """The lanes of a queue, while there is a place to begin in one of them."""
        with self._guard:
            seen = self._current(queue)
            return None if seen is None else seen.lanes

    def place(self, queue: str, lane: str) -> Place | None:
        """Where to begin in a lane; None: at its beginning."""
        with self._guard:
            seen = self._current(queue)
            return None if seen is None else seen.places.get(lane)

    def _current(self, queue: str) -> _Seen | None:
        """What was seen of a queue, if that is still valid, and says where to begin."""
        seen = self._seen.get(queue)
        return seen if seen and seen.places and monotonic() < seen.until else None

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
        return None if self.lanes(queue) else (node, lanes)
