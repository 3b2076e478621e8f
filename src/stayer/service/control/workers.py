"""The verbs about workers."""

from __future__ import annotations

from collections.abc import Iterable

from stayer.core.happenings import (
    WorkerLost,
)
from stayer.core.lifecycle import decide
from stayer.core.model import (
    Task,
)
from stayer.core.worker_model import Worker
from stayer.store import AdminStore, WorkerStore


def lose(store: WorkerStore, tasks: Iterable[Task]) -> int:
    """Decide what buried workers held as lost; how many this call returned."""
    lost = {task.id: task for task in tasks}
    returned = 0
    while lost:
        changes = [decide(task, WorkerLost(f"worker {task.worker} lost")) for task in lost.values()]
        answers = store.commit(changes)
        returned += sum(answer is not None for answer in answers)
        refused = [task for task, answer in zip(lost.values(), answers, strict=True) if not answer]
        # Somebody was faster, unless only the count of losses has changed since it was read.
        current = store.get([task.id for task in refused]) if refused else []
        lost = {
            now.id: now
            for was, now in zip(refused, current, strict=True)
            if now is not None and now.losses != was.losses and _is_as_it_was(now, was)
        }
    return returned


def _is_as_it_was(now: Task, was: Task) -> bool:
    """Tell whether the same attempt holds it, in the same state."""
    known = was.state, was.worker, was.attempt, was.last_order
    return (now.state, now.worker, now.attempt, now.last_order) == known


def drain(store: AdminStore, worker: str) -> Worker:
    """Let a worker finish what it runs and take no more, wherever it is; then it ends."""
    return store.drain_worker(worker)


def drop_worker(store: WorkerStore, worker: str) -> int:
    """Give a stale worker up and return what it held to the queue; how many tasks that was."""
    return lose(store, store.drop_worker(worker))
