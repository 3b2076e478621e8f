"""Dropping a worker that is alive: it is told to stop, and declared lost only when nothing of it
can run any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from stayer.core.errors import Refused, UnknownWorker
from stayer.core.liveness.judge import BEATS_IN_A_LEASE, Judge
from stayer.core.units import format_duration
from stayer.core.worker_model import Suspect, Worker
from stayer.service.lease.heartbeat import moment
from stayer.service.operator import operator_of
from stayer.store import Store

_LOOK_PAUSES_S = (0.05, 1.0)
"""The shortest and the longest time between two looks at the worker."""
_SHORTEST_JUDGE_INTERVAL_S = 1.0
"""Looks that are further apart than two of these, and a half, are no unbroken row."""


class Dropped(NamedTuple):
    """What became of a worker."""

    tasks: int
    """How many it held."""
    confirmed: bool
    """It has left by itself; else it was declared lost."""


def drop_by_force(
    store: Store,
    worker: str,
    grace: float | None,
    say: Callable[[str], None] = lambda text: None,
) -> Dropped:
    """Stop a worker that may be alive, and return what it held to the queue. Waits until it has
    left, or was silent for its whole lease and a margin, by our own clock. `say` hears what this
    waits for.
    """
    operator = operator_of(store)
    try:
        return Dropped(operator.drop_worker(worker), confirmed=False)  # it is stale
    except Refused:
        known = operator.stop_worker(worker, grace)
    say(
        f"{worker} was told to stop: waiting until it has confirmed that, or has been silent for "
        f"its lease and a margin ({format_duration(known.lease * (1 + 1 / BEATS_IN_A_LEASE))})"
    )
    interval = known.lease / BEATS_IN_A_LEASE
    pause = min(max(_LOOK_PAUSES_S[0], interval / 4), _LOOK_PAUSES_S[1])
    judge = Judge(max(interval, _SHORTEST_JUDGE_INTERVAL_S))
    while True:
        at = moment()
        found = next((each for each in store.workers() if each.id == worker), None)
        if found is None:
            was_declared_lost = any(each.id == worker for each in store.lost_workers())
            return Dropped(known.running, confirmed=not was_declared_lost)
        if judge.observe(at, [Suspect(worker, found.number, found.lease)]):
            _check_lease_counts(found)
            try:
                return Dropped(operator.drop_worker(worker), confirmed=False)
            except (Refused, UnknownWorker):
                pass  # it is back, the store's clock says otherwise, or somebody was faster
        time.sleep(pause)


def _check_lease_counts(worker: Worker) -> None:
    if worker.keeps:
        raise Refused(
            f"worker {worker.id} is silent, and its tasks run on without a lease (fence = keep): "
            "make sure that its machine is gone, then drop it by `stayer workers rm` without "
            "--force"
        )
