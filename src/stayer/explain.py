"""Why a task is not getting on, in words for people."""

from __future__ import annotations

from stayer.core.model import RUNNING, QueueInfo, Task
from stayer.core.units import format_duration
from stayer.store import Store

_NAMED = 3
"""How many of the tasks that another waits for are named."""


def why_waiting(store: Store, task: Task) -> str:
    """Why a queued task is not running, for people."""
    if task.held:
        return "it is held, until somebody releases it"
    if task.state == "scheduled" and task.eta is not None:
        return f"it is due in {format_duration(max(0, int(task.eta - store.now())))}"
    if task.state == "waiting":
        some, number = store.waits(task.id, _NAMED)
        more = f" and {number - len(some):,} more" if number > len(some) else ""
        return f"for {', '.join(some)}{more} to end" if some else "for other tasks to end"
    queue = next(iter(store.queues([task.queue])), QueueInfo(name=task.queue))
    running = sum(queue.counts.get(state, 0) for state in RUNNING)
    if queue.paused:
        return f"queue {task.queue} is paused"
    if queue.limit is not None and running >= queue.limit:
        return f"queue {task.queue} is limited to {queue.limit} at once"
    listening = [
        worker
        for worker in store.workers()
        if task.queue in worker.queues and worker.state in ("IDLE", "PROCESSING")
    ]
    if not listening:
        return f"no worker listens to queue {task.queue}"
    if all(worker.running >= worker.slots for worker in listening):
        return f"the workers of queue {task.queue} are busy"
    return f"the workers of queue {task.queue} don't take it: they may not run such tasks"


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
