"""Reading what can be reached of a store, part of which is away. For lists that people look at:
what acts on all that it finds must not take a part for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from stayer.core.errors import StoreUnreachable
from stayer.core.model import Task
from stayer.core.worker_model import Worker
from stayer.store import ReadStore, WorkerStore

T = TypeVar("T")


def partly(
    store: ReadStore, queues: Sequence[str], read: Callable[[Sequence[str]], T]
) -> tuple[T, dict[str, str]]:
    """Return what `read` finds in these queues (none named: in all), and which of them it leaves
    out because they can't be reached, with the reason. Raises StoreUnreachable if none can be.
    """
    try:
        return read(queues), {}
    except StoreUnreachable:
        if not store.in_parts:
            raise
        reach = store.reach(queues)
    return read(reach.queues if reach.away else queues), reach.away


def workers_in(store: ReadStore, queues: Sequence[str]) -> list[Worker]:
    """List the workers, with what they run in these queues; none named: in all. For `partly`."""
    return store.workers_of(queues) if queues else store.workers()


class Holdings(NamedTuple):
    """What a worker holds, as far as could be asked."""

    tasks: list[Task]
    queues: Collection[str] | None
    """The queues that have answered; None: all."""

    def covers(self, queue: str) -> bool:
        """Tell whether what is not among the tasks of this queue is not held."""
        return self.queues is None or queue in self.queues


def held_by(store: WorkerStore, worker: str, queues: Collection[str]) -> Holdings:
    """Find what a worker holds: everywhere, or in those of these queues that can be reached."""
    try:
        return Holdings(store.holdings(worker), None)
    except StoreUnreachable:
        if not store.in_parts:
            raise
        there = store.reach(sorted(queues)).queues
    return Holdings(store.holdings(worker, there), there)
