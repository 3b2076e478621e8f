"""The verbs about workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stayer.core.errors import BadInput, Refused, UnknownWorker
from stayer.core.happenings import (
    WorkerLost,
)
from stayer.core.lifecycle import decide
from stayer.core.limits import check_count
from stayer.core.model import (
    Task,
)
from stayer.core.submit.names import check_word
from stayer.core.worker_model import Worker, WorkerOrder
from stayer.store import AdminStore, ReadStore, WorkerStore

STOP_GRACE_S = 30.0
"""How long what a worker runs may take to end when the worker is told to stop, if nobody says."""
MOST_QUEUES = 1000
"""From how many queues a worker can be told to take tasks: each of its beats names them."""


def return_lost_tasks(store: WorkerStore, tasks: Iterable[Task]) -> int:
    """Decide what lost workers held as lost, too; how many tasks this call returned."""
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
    """Drop a stale worker and return what it held to the queue; how many tasks that was."""
    return return_lost_tasks(store, store.drop_worker(worker))


def set_worker(
    store: AdminStore,
    worker: str,
    *,
    queues: Sequence[str] = (),
    add_queues: Sequence[str] = (),
    remove_queues: Sequence[str] = (),
    slots: int | None = None,
    reset: bool = False,
) -> Worker:
    """Let a worker take tasks from other queues, or run more or fewer at once; what it runs goes
    on. With `reset`, it goes by its flags and settings again in all that is not named.
    """
    if not (queues or add_queues or remove_queues or slots is not None or reset):
        raise BadInput("say what to change: queues, slots, or reset")
    if queues and (add_queues or remove_queues):
        raise BadInput("give either all queues, or those to add and to remove")
    if slots is not None and slots < 1:
        raise BadInput(
            f"{slots} slots: a worker needs at least one. To let it take no more, drain it"
        )
    for name in (*queues, *add_queues, *remove_queues):
        check_word("queue", name)
    while True:
        known = _find(store, worker)
        last = known.order or WorkerOrder(number=0)
        if last.grace is not None:
            raise Refused(f"worker {worker} was told to stop: it can't be changed any more")
        order = WorkerOrder(
            number=last.number + 1,
            queues=None if reset else last.queues,
            slots=None if reset else last.slots,
        )
        if queues or add_queues or remove_queues:
            takes = queues or _changed(
                worker, order.queues or known.queues, add_queues, remove_queues
            )
            order = replace(order, queues=tuple(dict.fromkeys(takes)))
            check_count("queues of a worker", order.queues or (), MOST_QUEUES)
        if slots is not None:
            order = replace(order, slots=slots)
        answer = store.order_worker(worker, order)
        if answer is not None:
            return answer


def _changed(
    worker: str, takes: Sequence[str], add: Sequence[str], remove: Sequence[str]
) -> tuple[str, ...]:
    if missing := [name for name in remove if name not in takes]:
        raise BadInput(
            f"worker {worker} does not take tasks from {missing[0]}: it does from "
            f"{', '.join(takes)}"
        )
    left = tuple(name for name in (*takes, *add) if name not in remove)
    if not left:
        raise BadInput(
            f"no queue would be left for worker {worker}: to let it take no more, drain it"
        )
    return left


def _find(store: ReadStore, worker: str) -> Worker:
    for each in store.workers():
        if each.id == worker:
            return each
    raise UnknownWorker(f"no worker {worker!r}: `stayer workers` lists those there are")


def stop_worker(store: AdminStore, worker: str, grace: float | None = None) -> Worker:
    """Tell a worker to stop what it runs, hand that back and leave, wherever it is. If it has not
    done so within the grace and a lease, its heartbeats are refused: then its lease ends.
    """
    grace = STOP_GRACE_S if grace is None else grace
    while True:
        known = _find(store, worker)
        number = 1 if known.order is None else known.order.number + 1
        # What one that keeps its tasks runs goes on without a lease: it is no use to refuse it.
        ends_at = None if known.keeps else store.now() + grace + known.lease
        order = WorkerOrder(number=number, grace=grace, ends_at=ends_at)
        answer = store.order_worker(worker, order)
        if answer is not None:
            return answer
