"""Whose workers are not heard of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stayer.core.liveness.silent import silent_for
from stayer.core.model import RUNNING, Task
from stayer.core.worker_model import Worker
from stayer.store import Store, known_workers


def silent_workers(store: Store, tasks: Iterable[Task], now: float) -> dict[str, float]:
    """Find the workers of these tasks that are silent, and for how long; asks only if some run."""
    if not any(task.state in RUNNING for task in tasks):
        return {}
    return find_silent(known_workers(store), now)


def find_silent(workers: Sequence[Worker], now: float) -> dict[str, float]:
    """Find those of these workers that are silent, and for how long."""
    return {
        worker.id: silence for worker in workers if (silence := silent_for(worker, now)) is not None
    }
