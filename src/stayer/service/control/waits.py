"""Waiting until something becomes of tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from stayer.core.errors import (
    StoreUnreachable,
)
from stayer.core.model import (
    FINISHED,
    Task,
)
from stayer.service.control.tasks import BATCH, get
from stayer.service.degraded.retry import Tell, logger, retry_while_unreachable
from stayer.store import ReadStore

WATCH_S = 60.0
"""How long one look at the events waits at most."""


LOOK_S = 1.0
"""How often to look at tasks while events can't be heard."""


def watch(store: ReadStore, id: str, seen: int, timeout: float) -> int:
    """Wait for something to happen to the task, or the time to be over; the last event's number."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        events = store.watch(seen, left, BATCH)
        seen = events[-1].number if events else seen
        if any(event.id == id for event in events):
            break
    return seen


def wait(
    store: ReadStore, ids: Sequence[str], timeout: float | None = None, tell: Tell = logger.warning
) -> Iterator[Task]:
    """Give the tasks with these ids, each as soon as it has ended; end early when the time is over.
    A store that can't be reached for a while is waited for, too: `tell` says so.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    open_ids = list(dict.fromkeys(ids))

    def look() -> tuple[int | None, list[Task]]:
        seen, found = _newest_event(store), zip(open_ids, store.get(open_ids), strict=True)
        return seen, [get(store, id) if task is None else task for id, task in found]

    while True:
        again = time.monotonic() + WATCH_S
        seen, tasks = retry_while_unreachable(look, deadline, tell)
        yield from (task for task in tasks if task.state in FINISHED)
        open_ids = [task.id for task in tasks if task.state not in FINISHED]
        if not open_ids:
            return
        concerned = frozenset(open_ids)
        while True:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return
            left = (again if deadline is None else min(again, deadline)) - now
            if left <= 0:  # who was away for a while may have missed events that are gone by now
                break
            try:
                events = None if seen is None else store.watch(seen, left, BATCH)
            except StoreUnreachable:
                events = None
            if events is None:  # look again, as soon as the store is back
                time.sleep(min(left, LOOK_S))
                break
            if any(event.id in concerned for event in events):
                break
            seen = events[-1].number if events else seen


def _newest_event(store: ReadStore) -> int | None:
    """Give its number; None if nobody can say: the part of a store that has the events may be away,
    while the tasks are not.
    """
    try:
        return store.last_event()
    except StoreUnreachable:
        return None
