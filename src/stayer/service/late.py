"""Which tasks run for longer than any like them did lately."""

from __future__ import annotations

from msgspec import Struct

from stayer.core.insight.forecast import late_after
from stayer.core.model import Filter, Task
from stayer.store import ReadStore

_SAMPLES = 200
"""So many complete tasks of a queue tell how long the others may take."""
_PAGE = 500
_MOST_PAGES = 10


class Late(Struct, frozen=True):
    """A task that runs, and by when it should have ended."""

    task: Task
    expected: float


def late_tasks(store: ReadStore) -> list[Late]:
    """Find the tasks that are late, the one that is so for longest first."""
    now = store.now()
    known: dict[str, dict[str, list[float]]] = {}
    found: list[Late] = []
    for task in running_tasks(store):
        if task.started_at is None or task.paused:
            continue
        if task.queue not in known:
            known[task.queue] = durations_by_kind(store, task.queue)
        usual = late_after(known[task.queue].get(task.kind, ()))
        if usual is not None and time_run(task, now) > usual:
            found.append(Late(task, task.started_at + usual))
    return sorted(found, key=lambda late: late.expected)


def time_run(task: Task, now: float) -> float:
    """Return for how many seconds a running task has run; while it was paused does not count, as
    far as its worker has said.
    """
    if task.started_at is None:
        return 0.0
    since_start, usage = now - task.started_at, task.usage
    if usage is None or usage.at is None or usage.at < task.started_at:
        return since_start
    return min(since_start, usage.ran + now - usage.at)


def running_tasks(store: ReadStore) -> list[Task]:
    """List what runs, as far as that is not too much to look at."""
    found: list[Task] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = store.find(Filter(states=("started",)), cursor, _PAGE)
        found += page.tasks
        cursor = page.next
        if cursor is None:
            break
    return found


def durations_by_kind(store: ReadStore, queue: str) -> dict[str, list[float]]:
    """Return how long the last tasks of a queue took that are complete."""
    found: dict[str, list[float]] = {}
    for kind, seconds in store.durations(queue, _SAMPLES):
        found.setdefault(kind, []).append(seconds)
    return found
