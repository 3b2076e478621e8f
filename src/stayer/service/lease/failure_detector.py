"""Judging workers without being one: for whoever runs no tasks, but should notice who is dead.

By the same rule as workers judge each other (`core.liveness.judge`): what a worker's number does,
seen in an unbroken row of looks, by the watcher's own clock. It registers nothing, so nobody takes
it for a worker; that the number still stands when it is declared lost is for the store to check.

A dead worker's tasks are given back only once another worker is there that could take them. Until
then giving them back would help nobody, and would cost the work of a worker that comes back: a
laptop that slept, a machine whose worker is being repaired. What is held by one that was declared
lost is another matter: it can't come back, so its tasks are given back, whoever declared that.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence

from stayer.core.errors import LeaseLost, StoreError, UnknownWorker
from stayer.core.liveness.judge import BEATS_IN_A_LEASE, Judge
from stayer.core.liveness.silent import silent_for
from stayer.core.worker_model import Suspect, Worker
from stayer.service.control import workers as worker_control
from stayer.service.degraded import log_once
from stayer.service.lease.heartbeat import moment
from stayer.store import WorkerStore

logger = logging.getLogger(__name__)

_LOOK_PAUSES_S = (0.2, 5.0)
"""The shortest and the longest time between two looks, in seconds."""
_SETTLE_PAUSE_S = 60.0
"""How often to look for lost workers whose tasks were not all returned."""


class Watcher:
    """Looks at the workers as often as those beat, says who has fallen silent, and declares
    them lost for the sake of others.
    """

    def __init__(self, store: WorkerStore) -> None:
        self._store = store
        self.pause = _LOOK_PAUSES_S[1]
        """Until the next look is due: an eighth of the shortest lease."""
        self._judge = Judge(self.pause)
        self._dead: dict[str, int] = {}
        self._settled_at = -math.inf
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin, in a thread of its own: a store that is slow keeps nobody else waiting."""
        threading.Thread(target=self._run, name="watcher of workers", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except StoreError as error:
                log_once.warn_once(
                    logger, "workers can't be watched now", error, even_if_logged=True
                )
            except Exception:
                logger.exception("workers can't be watched now")
            self._stopping.wait(self.pause)

    def look(self) -> None:
        """Once; a worker that is `kept` stays its own until somebody says otherwise."""
        at = moment()
        everybody = self._store.workers()
        workers = [worker for worker in everybody if not worker.keeps]
        shortest = min(
            (worker.lease for worker in workers), default=_LOOK_PAUSES_S[1] * BEATS_IN_A_LEASE
        )
        self.pause = min(max(_LOOK_PAUSES_S[0], shortest / BEATS_IN_A_LEASE), _LOOK_PAUSES_S[1])
        self._judge.interval = self.pause
        suspects = [Suspect(worker.id, worker.number, worker.lease) for worker in workers]
        self._judge_dead(workers, self._judge.observe(at, suspects))
        now = self._store.now()
        takers = [
            each for each in everybody if _takes_tasks(each, now) and each.id not in self._dead
        ]
        failed: Exception | None = None
        for worker in workers:
            if worker.id in self._dead and any(_share_a_queue(worker, each) for each in takers):
                try:
                    self._declare_lost(worker.id, self._dead[worker.id])
                except Exception as error:  # it may be about this one alone: the others don't wait
                    failed = error
        if failed is not None or at - self._settled_at >= _SETTLE_PAUSE_S:
            self._settle_half_done(at)
        if failed is not None:
            raise failed

    def _judge_dead(self, workers: Sequence[Worker], dead: Mapping[str, int]) -> None:
        """Remember who is dead, for as long as their numbers stand, and tell of each once."""
        standing = {(worker.id, worker.number) for worker in workers}
        self._dead = dict(each for each in self._dead.items() if each in standing)
        for worker in dead.keys() - self._dead.keys():
            logger.warning(
                "worker %s is silent for longer than its lease: its tasks wait until it is back, "
                "or until there is another worker for its queues",
                worker,
            )
        self._dead.update(dead)

    def _declare_lost(self, worker: str, number: int) -> None:
        """Declare a worker lost. What fails because the store is away is tried again at the next
        look; if we die in between, the next server or worker that comes finishes it.
        """
        try:
            returned = worker_control.return_lost_tasks(
                self._store, self._store.drop_worker(worker, number, is_lost=True)
            )
            logger.warning("declared lost: %s; took back %d of its tasks", worker, returned)
        except (LeaseLost, UnknownWorker):
            pass  # it has beaten again, or somebody else was faster
        del self._dead[worker]

    def _settle_half_done(self, at: float) -> None:
        """Give back what workers hold that were declared lost before: somebody died in between, or
        the store failed.
        """
        self._settled_at = -math.inf  # until it is done
        returned = worker_control.return_lost_tasks(self._store, self._store.declare_lost(None, {}))
        self._settled_at = at
        if returned:
            logger.warning("took back %d tasks of workers that were declared lost before", returned)


def _takes_tasks(worker: Worker, now: float) -> bool:
    return not worker.draining and silent_for(worker, now) is None


def _share_a_queue(one: Worker, other: Worker) -> bool:
    return not set(one.queues).isdisjoint(other.queues)
