"""The operator's verbs, one function each, the same for every door.

Each takes the road of every change: get, decide, commit; and goes round again when somebody was
faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from stayer.core.errors import BadInput, NotHeld, Refused, UnknownTask
from stayer.core.lifecycle import (
    Cancel,
    Happening,
    Hold,
    Lose,
    Release,
    Retry,
    decide,
)
from stayer.core.model import FINISHED, RUNNING, Filter, QueueInfo, State, Task
from stayer.store import Store

BATCH = 500
"""How many tasks a verb on many touches at a time, so that others get their turn in between."""

WATCH = 60.0
"""How long one look at the events waits at most, in seconds."""


def get(store: Store, id: str) -> Task:
    """The task with this id."""
    task = store.get([id])[0]
    if task is None:
        raise UnknownTask(f"no task {id!r} in {store.url}: `stayer ls` lists those there are")
    return task


def resolve(store: Store, prefix: str) -> str:
    """The full id of the one task whose id is, or begins with, this."""
    if store.get([prefix])[0] is not None:
        return prefix
    found = store.find(Filter(prefix=prefix), None, 2).tasks if prefix else ()
    if not found:
        raise UnknownTask(f"no task {prefix!r} in {store.url}: `stayer ls` lists those there are")
    if len(found) > 1:
        raise UnknownTask(
            f"{prefix!r} is the beginning of several ids ({found[0].id}, {found[1].id} …): "
            "give more of it"
        )
    return found[0].id


def find_all(store: Store, filter: Filter) -> Iterator[Task]:
    """Every task that matches, page by page."""
    cursor: str | None = None
    while True:
        page = store.find(filter, cursor, BATCH)
        yield from page.tasks
        if page.next is None:
            return
        cursor = page.next


def cancel(store: Store, id: str, grace: float | None = None) -> Task:
    """Cancel a task: at once if it waits, else by asking its worker. Twice is once."""

    def unless_wanted(task: Task) -> Happening | None:
        if task.state == "cancelled" or (task.state in RUNNING and task.cancel_wanted):
            return None
        return Cancel(grace)

    return _apply(store, id, unless_wanted)


def retry(store: Store, id: str) -> Task:
    """Run a finished task again, with its counters at zero."""
    return _apply(store, id, lambda task: Retry())


def hold(store: Store, id: str) -> Task:
    """Keep a task from being taken until it is released."""
    return _apply(store, id, lambda task: None if task.held else Hold())


def release(store: Store, id: str) -> Task:
    """Let a held task be taken again."""
    return _apply(store, id, lambda task: Release() if task.held else None)


def wait(store: Store, ids: Sequence[str], timeout: float | None = None) -> Iterator[Task]:
    """The tasks with these ids, each as soon as it has ended; ends early when the time is over."""
    deadline = None if timeout is None else time.monotonic() + timeout
    open_ids = list(dict.fromkeys(ids))
    while True:
        seen = store.last_event()
        tasks = [
            get(store, id) if task is None else task
            for id, task in zip(open_ids, store.get(open_ids), strict=True)
        ]
        yield from (task for task in tasks if task.state in FINISHED)
        open_ids = [task.id for task in tasks if task.state not in FINISHED]
        if not open_ids:
            return
        concerned = set(open_ids)
        while True:
            left = WATCH if deadline is None else min(WATCH, deadline - time.monotonic())
            if left <= 0:
                return
            events = store.watch(seen, left, BATCH)
            if any(event.id in concerned for event in events):
                break
            seen = events[-1].number if events else seen


def settle(store: Store, task: Task, happening: Happening) -> Task:
    """Bring what happened to an attempt into the store, for the worker that holds it.

    Raises NotHeld if (worker, attempt) hold the task no longer.
    """
    held = task
    while True:
        applied = store.commit([decide(held, happening)])[0]
        if applied is not None:
            return applied
        current = store.get([task.id])[0]
        if current is None:
            raise NotHeld(f"task {task.id} is no longer there: it was deleted while it ran")
        if (current.worker, current.attempt) != (task.worker, task.attempt) or (
            current.state not in RUNNING
        ):
            raise NotHeld(
                f"task {task.id} is no longer held by attempt {task.attempt} of worker "
                f"{task.worker}: it is {current.state}, attempt {current.attempt}. "
                "Stop working on it; whatever it did since is refused"
            )
        held = current


def lose(store: Store, tasks: Iterable[Task]) -> int:
    """Decide what buried workers held as lost; how many this call returned."""
    changes = [decide(task, Lose(f"worker {task.worker} lost")) for task in tasks]
    return sum(applied is not None for applied in store.commit(changes)) if changes else 0


def drop_worker(store: Store, worker: str) -> int:
    """Give a stale worker up and return what it held to the queue; how many tasks that was."""
    return lose(store, store.drop_worker(worker))


def pause_queue(store: Store, name: str) -> QueueInfo:
    """Let no more tasks of the queue be taken; what runs, runs on."""
    return store.set_queue(_queue_name(name), paused=True)


def resume_queue(store: Store, name: str) -> QueueInfo:
    """Let tasks of the queue be taken again."""
    return store.set_queue(_queue_name(name), paused=False)


def drop_queue(store: Store, name: str, *, force: bool = False) -> int:
    """Delete a queue with its tasks; how many they were. Unfinished ones only with `force`."""
    found = store.queues([name])
    counts = found[0].counts if found else {}
    waiting = sum(number for state, number in counts.items() if state not in FINISHED)
    if waiting and not force:
        raise Refused(
            f"queue {name} has {waiting} unfinished tasks: cancel them first, or force the drop"
        )
    total = sum(counts.values())
    while store.drop_queue(name, BATCH):
        pass
    return total


def delete(store: Store, id: str) -> None:
    """Forget a finished task; its id stays refused for a while."""
    task = get(store, id)
    if not store.purge([id], FINISHED, float("inf"), 1):
        raise Refused(f"task {id} is {task.state}: only a finished task can be deleted, cancel it")


def purge(store: Store, before: float, states: Sequence[State] = FINISHED) -> Iterator[list[str]]:
    """Forget the tasks that ended before then, in small batches: yields their ids."""
    if any(state not in FINISHED for state in states):
        raise BadInput(f"only finished tasks can be purged: {', '.join(FINISHED)}")
    while purged := store.purge(None, states, before, BATCH):
        yield purged


def _apply(store: Store, id: str, choose: Callable[[Task], Happening | None]) -> Task:
    while True:
        task = get(store, id)
        happening = choose(task)
        if happening is None:
            return task
        applied = store.commit([decide(task, happening)])[0]
        if applied is not None:
            return applied


def _queue_name(name: str) -> str:
    if not name:
        raise BadInput("a queue needs a name")
    return name
