"""Finding workers that are lost, for hooks that want to hear of it.

Whoever delivers looks, servers too: nobody declares the only worker lost. Each
writes the same notice, of which the store keeps one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stayer.core.notify.notices import KEPT, lost_worker_notice
from stayer.core.worker_model import Worker
from stayer.store import Store

_LOOKS_IN_A_LEASE = 32
"""An eighth of a lease after its end, others may declare it lost: some looks are before that."""
_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S = 5.0, 0.1
_GAP = 10
"""After a pause so many times too long, what was seen before counts for nothing."""


class LostWorkers:
    """Looks at workers again and again. One is lost when its lease has ended, and we have
    looked for half a lease without a break: after an outage of the store all leases have ended, and
    nobody is lost.
    """

    what = "lost workers"

    def __init__(self, store: Store, hooks: Callable[[], Sequence[str]]) -> None:
        self._store = store
        self._hooks = hooks
        self._told: set[tuple[str, int]] = set()
        self._looked_at: float | None = None
        self._looks_since = 0.0
        self.pause = _SHORTEST_PAUSE_S
        """After how many seconds to look again."""

    def look(self, moment: float) -> None:
        """Look once, at a moment of a clock that never goes back; write what is to be told."""
        if not self._hooks():
            self._looked_at, self.pause = None, _LONGEST_PAUSE_S
            return
        workers, now = self._store.workers(), self._store.now()
        if self._looked_at is None or moment - self._looked_at > _GAP * self.pause:
            self._looks_since = moment
        self._looked_at = moment
        leases = [worker.lease for worker in workers]
        shortest = min(leases, default=_LONGEST_PAUSE_S * _LOOKS_IN_A_LEASE)
        self.pause = min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, shortest / _LOOKS_IN_A_LEASE))
        for worker in workers:
            long_enough = moment - self._looks_since >= worker.lease / 2
            if worker.state == "STALE" and long_enough and now - worker.beat_at < KEPT:
                self._tell(worker, now)
        self._told &= {(worker.id, worker.number) for worker in workers}

    def _tell(self, worker: Worker, now: float) -> None:
        if (worker.id, worker.number) in self._told:
            return
        held = self._store.holdings(worker.id)
        queue = held[0].queue if held else self._choose_queue(worker)
        self._store.add_notices(
            [lost_worker_notice(worker, held, queue, hook, now) for hook in self._hooks()]
        )
        self._told.add((worker.id, worker.number))

    def _choose_queue(self, worker: Worker) -> str:
        """Choose a queue that is there, if possible one of its own."""
        there = sorted(queue.name for queue in self._store.queues())
        own = [queue for queue in worker.queues if queue in there]
        return (own or there or ["default"])[0]
