"""The verbs about queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Unpack

from stayer.core import queue_settings
from stayer.core.errors import (
    BadInput,
    Refused,
)
from stayer.core.model import (
    FINISHED,
    STATES,
)
from stayer.core.queue_model import QueueInfo
from stayer.core.queue_settings import WrittenSettings
from stayer.service.control.tasks import BATCH
from stayer.store import AdminStore, ReadStore, known_workers


def list_queues(store: ReadStore, names: Sequence[str] = ()) -> list[QueueInfo]:
    """List these queues, or all, by name: also those that have had no task yet, but a worker."""
    found = store.queues(names)
    if names:
        return found
    alive = (worker for worker in known_workers(store) if worker.state != "STALE")
    listening = Counter(queue for worker in alive for queue in worker.queues)
    for queue in found:
        listening.pop(queue.name, None)
    empty = dict.fromkeys(STATES, 0)
    without_tasks = [
        QueueInfo(name=name, counts={**empty}, workers=number) for name, number in listening.items()
    ]
    return sorted([*found, *without_tasks], key=lambda queue: queue.name)


def set_queue(store: AdminStore, name: str, **written: Unpack[WrittenSettings]) -> QueueInfo:
    """Change those settings of a queue that are named."""
    return store.set_queue(_queue_name(name), **queue_settings.read(written))


def pause_queue(store: AdminStore, name: str) -> QueueInfo:
    """Let no more tasks of the queue be taken; what runs, runs on."""
    return store.set_queue(_queue_name(name), paused=True)


def resume_queue(store: AdminStore, name: str) -> QueueInfo:
    """Let tasks of the queue be taken again."""
    return store.set_queue(_queue_name(name), paused=False)


def drop_queue(store: AdminStore, name: str, *, force: bool = False) -> int:
    """Delete a queue with its tasks; how many they were. Unfinished ones only with `force`."""
    found = store.queues([name])
    counts = found[0].counts if found else {}
    waiting = sum(number for state, number in counts.items() if state not in FINISHED)
    if waiting and not force:
        raise Refused(
            f"queue {name} has {waiting} unfinished {'task' if waiting == 1 else 'tasks'}: cancel "
            "them first, or drop them too with --force (force=True in Python)"
        )
    total = sum(counts.values())
    while store.drop_queue(name, BATCH):
        pass
    return total


def _queue_name(name: str) -> str:
    if not name:
        raise BadInput("a queue needs a name")
    return name
