"""Short ways to say what a test of the contract needs."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from stayer.core.effects import effect
from stayer.core.happenings import Happening, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Change, Ending, Event, Filter, NewTask, Report, State, Task, Value
from stayer.core.worker_model import EVERYTHING, Beat, Handles, Worker
from stayer.service.control import tasks as control
from stayer.store import Store

PATIENCE = 60.0
"""After so many seconds something that must come is taken not to come at all."""

VALUES: list[Value] = [
    None,
    False,
    0,
    -1.5,
    2**53,
    2**64,
    "",
    "naïve ☃ \x00 \U0001f40c 'quoted' \"twice\"",
    [],
    [1, [2, [3, None]]],
    {},
    {"a": {"b": [True, "c"]}, "": None},
    {"base64": "aGVsbG8="},
    b"",
    b"\x00\xff\xfe raw",
    b'{"looks": "like JSON"}',
]
"""Parameters and results that a careless store would change."""

T = TypeVar("T")
_numbers = itertools.count(1)


class Clock:
    """A time that moves only when told."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        self.now += seconds
        return self.now


def new(id: str | None = None, queue: str = "q", **fields: Any) -> NewTask:
    return NewTask(id=id or f"task-{next(_numbers)}", queue=queue, **fields)


def submit(store: Store, *tasks: NewTask) -> list[Task]:
    """Submit tasks that must all be fresh."""
    answers = store.submit(tasks)
    assert all(answer.fresh for answer in answers)
    return [answer.task for answer in answers]


def fill(store: Store, number: int, queue: str = "q", **fields: Any) -> list[str]:
    """Submit so many tasks; the answer is their ids, oldest first."""
    return [task.id for task in submit(store, *(new(queue=queue, **fields) for _ in range(number)))]


def worker(id: str = "w", **fields: Any) -> Worker:
    about = {"node": f"node-of-{id}", "queues": ("q",), **fields}
    return Worker(id=id, pid=4242, **about)


def register(store: Store, id: str = "w", **fields: Any) -> Worker:
    """Let a worker beat for the first time."""
    known = worker(id, **fields)
    beat(store, known, 1)
    return known


def beat(
    store: Store, by: Worker | str, number: int, *reports: Report, nonce: str | None = None
) -> Beat:
    by = worker(by) if isinstance(by, str) else by
    return store.beat(by, number, f"nonce {number}" if nonce is None else nonce, reports)


def take(
    store: Store,
    worker: str = "w",
    queues: str | Sequence[str] = "q",
    limit: int = 1,
    handles: Handles = EVERYTHING,
) -> list[Task]:
    return store.reserve(worker, [queues] if isinstance(queues, str) else queues, limit, handles)


def take_one(store: Store, worker: str = "w", queue: str = "q") -> Task:
    """Reserve the one task that must be there."""
    [task] = take(store, worker, queue)
    return task


def taken(store: Store, worker: str = "w", queue: str = "q", **fields: Any) -> Task:
    """A fresh task that the worker has reserved; the queue must have had none to take."""
    [task] = submit(store, new(queue=queue, **fields))
    reserved = take_one(store, worker, queue)
    assert reserved.id == task.id
    return reserved


def started(store: Store, worker: str = "w", queue: str = "q", **fields: Any) -> Task:
    """A fresh task that the worker runs."""
    return apply(store, taken(store, worker, queue, **fields), Start(pid=77))


def commit(store: Store, task: Task, happening: Happening) -> Task | None:
    """Decide and commit, once."""
    return store.commit([decide(task, happening)])[0]


def apply(store: Store, task: Task, happening: Happening) -> Task:
    """Decide and commit what must go through."""
    applied = commit(store, task, happening)
    assert applied is not None
    return applied


def bare(
    task: Task,
    to: State,
    *,
    ending: Ending | None = None,
    delay: float | UnsetType | None = UNSET,
    result: Value | UnsetType = UNSET,
    **sets: Any,
) -> Change:
    """A change that says no more than it must."""
    return Change(
        id=task.id,
        state=task.state,
        worker=task.worker,
        attempt=task.attempt,
        last_order=task.last_order,
        effect=effect(task.state, to, sets, ending=ending, delay=delay),
        result=result,
    )


def get(store: Store, id: str) -> Task:
    return control.get(store, id)


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def happened(events: Sequence[Event]) -> list[str]:
    return [event.event for event in events]


def counts(store: Store, queue: str = "q") -> dict[State, int]:
    """What the queue says of itself, without the zeros; nothing if it is not there."""
    return {
        state: number
        for info in store.queues([queue])
        for state, number in info.counts.items()
        if number
    }


def check_counts(store: Store) -> None:
    """Every queue's counts are what a look at all tasks gives."""
    reality = Counter((task.queue, task.state) for task in control.find_all(store, Filter()))
    said = {
        (info.name, state): number
        for info in store.queues()
        for state, number in info.counts.items()
        if number
    }
    assert said == reality


def in_thread(call: Callable[[], T]) -> Callable[[], T]:
    """Start the call in a thread of its own; calling the answer waits for its result."""
    results: SimpleQueue[T | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            results.put(call())
        except BaseException as error:
            results.put(error)

    threading.Thread(target=run, daemon=True).start()

    def result() -> T:
        value = results.get(timeout=PATIENCE)
        if isinstance(value, BaseException):
            raise value
        return value

    return result
