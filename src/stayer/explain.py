"""Why a task is not getting on, in words for people."""

from __future__ import annotations

import math

from stayer.core import rate
from stayer.core.model import RUNNING, Filter, QueueInfo, Task
from stayer.core.units import format_duration
from stayer.store import Store

_SHOWN = 3
"""How many of those that hold the places are named."""
_LOOKED_AT = 500


def why_waiting(store: Store, task: Task) -> str:
    """Why a queued task is not running, for people."""
    if task.held:
        return "it is held, until somebody releases it"
    if task.state == "scheduled" and task.eta is not None:
        return f"it is due in {format_duration(max(0, int(task.eta - store.now())))}"
    if task.state == "waiting":
        return "for other tasks to end"
    queue = next(iter(store.queues([task.queue])), QueueInfo(name=task.queue))
    running = sum(queue.counts.get(state, 0) for state in RUNNING)
    if queue.paused:
        return f"queue {task.queue} is paused"
    if queue.limit is not None and running >= queue.limit:
        held = _named(store, Filter(queues=(task.queue,), states=RUNNING))
        return f"queue {task.queue} is limited to {queue.limit} at once: {held}"
    if (full := _full_key(store, task, queue)) is not None:
        return full
    if queue.next_start is not None and queue.rate is not None:
        left = format_duration(max(0, math.ceil(queue.next_start - store.now())))
        return (
            f"queue {task.queue} is limited to {rate.written(queue.rate)}: the next task may begin "
            f"in {left}"
        )
    listening = [
        worker
        for worker in store.workers()
        if task.queue in worker.queues and worker.state in ("IDLE", "PROCESSING")
    ]
    if not listening:
        return f"no worker listens to queue {task.queue}"
    if all(worker.running >= worker.slots for worker in listening):
        return f"the workers of queue {task.queue} are busy{_turns(store, task, queue)}"
    return f"the workers of queue {task.queue} don't take it: they may not run such tasks"


def _full_key(store: Store, task: Task, queue: QueueInfo) -> str | None:
    if task.key is None:
        return None
    limit = queue.key_limits.get(task.key, queue.key_limit)
    if limit is None:
        return None
    known = Filter(queues=(task.queue,), states=RUNNING, key=task.key)
    if len(store.find(known, None, limit).tasks) < limit:
        return None
    held = f": {_named(store, known)}" if limit else ""
    return f"key {task.key} is limited to {limit} at once in queue {task.queue}{held}"


def _turns(store: Store, task: Task, queue: QueueInfo) -> str:
    """Whose tasks go first where owners, or keys, take turns."""
    if queue.fair is None:
        return ""
    waiting = store.find(Filter(queues=(task.queue,), states=("pending",)), None, _LOOKED_AT).tasks
    mine = getattr(task, queue.fair)
    others = sum(
        getattr(each, queue.fair) != mine and each.priority >= task.priority and not each.held
        for each in waiting
    )
    if not others:
        return ""
    number = f"{others}" if len(waiting) < _LOOKED_AT else f"over {others}"
    return (
        f", and {queue.fair}s take turns: {number} waiting tasks of others go first as far as "
        f"these have used less than {mine or 'nobody'}"
    )


def _named(store: Store, filter: Filter) -> str:
    """`held by a, b, c and more`."""
    found = [task.id for task in store.find(filter, None, _SHOWN + 1).tasks]
    more = " and more" if len(found) > _SHOWN else ""
    return f"held by {', '.join(found[:_SHOWN])}{more}" if found else "held by nobody now"


def why_silent(store: Store, task: Task) -> str | None:
    """Why nothing is heard of a running task, for people; None if its worker is well."""
    worker = next((worker for worker in store.workers() if worker.id == task.worker), None)
    if worker is None or worker.state != "STALE":
        return None
    since = format_duration(max(0, int(store.now() - worker.beat_at)))
    silent = f"its worker on {worker.node} has been silent for {since}"
    if worker.keeps:
        return (
            f"{silent}, and keeps its tasks: once you know that machine to be gone, "
            f"`stayer workers drop {worker.id}`"
        )
    return f"{silent}: the task stands still there, and goes to another worker if it stays so"
