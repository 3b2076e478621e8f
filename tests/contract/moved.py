"""A store with something of everything in it that can be moved, and all that it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Done, Fail, Interrupt, Pin, Start
from stayer.core.insight.queue_stats import KEPT
from stayer.core.insight.statistics import Recorder
from stayer.core.model import Code, Fault, Filter, LogPiece, Pinned, Policy, Report, Usage, Value
from stayer.core.queue_model import Rate
from stayer.core.schedules.model import Schedule
from stayer.core.submit.checks import new_task
from stayer.store import Store
from tests.contract.builders import (
    VALUES,
    Clock,
    apply,
    beat,
    get,
    new,
    register,
    submit,
    take_one,
)
from tests.contract.damaged import scene

LONG: Value = {"text": "long " * 5000}
"""Compressed, and kept apart."""


class Killed(BaseException):
    """The process that moves a store is gone."""


def fill(store: Store, clock: Clock) -> None:
    """Something of everything; no worker is left, and nothing runs."""
    scene(store)
    _values(store)
    _tries(store, clock)
    _limits(store, clock)
    _ties(store)
    for number in range(3):
        store.put_file(f"{number}" * 64, b"\xff" * number)
    store.put_shared("access", "who may come in", None)
    leave(store)
    clock.advance(61.5)
    store.sample()


def leave(store: Store) -> None:
    """Let all workers end what they hold, and go."""
    for worker in store.workers():
        for task in store.holdings(worker.id):
            apply(store, task, Done("at last"))
        store.drop_worker(worker.id, worker.number)


def _values(store: Store) -> None:
    register(store, "v")
    for number, value in enumerate((*VALUES, LONG)):
        submit(store, new(f"value-{number}", "values", parameters=value, tags=("a", "ü")))
        task = take_one(store, "v", "values")
        apply(store, task, Done(value))
    submit(
        store, new("coded", "values", code=Code(("numpy>=2",), "3.12", "https://host/repo@main"))
    )
    task = take_one(store, "v", "values")
    task = apply(store, task, Pin(Pinned("3.12", "ab12" * 16, "c0ffee"), "numpy==2.0\n"))
    apply(store, task, Done())
    submit(store, new("same-1", "values"), new("same-2", "values"), new("same-0", "values"))


def _tries(store: Store, clock: Clock) -> None:
    """A task with a life behind it: three attempts, logs, a checkpoint, and a returned one."""
    known = register(store, "t")
    submit(store, new("tried", "tries", policy=Policy(retries=9), name="f", owner="ann"))
    for number in range(3):
        task = apply(store, take_one(store, "t", "tries"), Start(pid=number))
        clock.advance(1.25)
        recorder = Recorder()
        recorder.add("loss", 0.5, 1.0)
        own = recorder.result()
        log = (LogPiece(0, b"first \xff"), LogPiece(7, b"second"))
        beat(
            store, known, number + 2,
            Report(
                id=task.id, attempt=task.attempt, log=log, checkpoint=b"\x00saved",
                usage=Usage(ran=1.0), statistics=own,
            ),
        )  # fmt: skip
        ended = apply(store, task, Fail(Fault("ValueError", "no " * number, "trace", 3)))
        clock.advance((ended.eta or clock.now) - clock.now + 0.5)
        store.promote(100)
    submit(store, new("snoozed", "tries", name="g"), new("interrupted", "tries", priority=7))
    apply(store, take_one(store, "t", "tries"), Interrupt("its worker stopped"))
    submit(store, new("held", "tries", held=True), new("expires", "tries", expire=50_000.0))
    assert get(store, "tried").attempt == 3


def _limits(store: Store, clock: Clock) -> None:
    """A queue where keys are limited, owners take turns and starts are rare."""
    register(store, "l")
    store.set_queue("limited", fair="owner", key_limit=2, rate=Rate(3, 3600.0))
    for number in range(6):
        owner, key = ("ann", "bob")[number % 2], f"k{number % 3}"
        submit(store, new(f"limited-{number}", "limited", owner=owner, key=key))
    for seconds in (10.0, 20.0):
        task = apply(store, take_one(store, "l", "limited"), Start(pid=1))
        clock.advance(seconds)
        apply(store, task, Done())
    submit(store, new("word", "limited", owner="bob", unique="w"))
    store.set_queue("paused", paused=True)


def _ties(store: Store) -> None:
    """Tasks that wait for others, also in other queues; and a schedule that has fired."""
    submit(store, new("first", "tied"), new("second", "tied-too"))
    submit(
        store,
        new("third", "tied", after=("first", "second")),
        new("fourth", "tied-too", after=("third",), behind=("first",)),
    )
    store.put_schedule(
        Schedule(name="often", cron="* * * * *", task=new_task(queue="tied", name="tick"), next=2.0)
    )


def everything(store: Store) -> dict[str, Any]:
    """What a store says to whoever asks, but for what is its own: cursors, its newest events."""
    found = store.find(Filter(), None, 1000).tasks
    tasks = {task.id: replace(task, returned_from=None) for task in found}
    attempts = {id: store.attempts(id) for id in tasks}
    return {
        "tasks": tasks,
        "attempts": attempts,
        "events": {id: store.events(id) for id in tasks},
        "logs": _of_attempts(attempts, lambda id, attempt: store.log(id, attempt, 0, 10**7)),
        "usage": _of_attempts(attempts, store.usage),
        "statistics": _of_attempts(attempts, store.statistics),
        "checkpoints": {id: store.checkpoint(id) for id in tasks},
        "upstreams": dict(zip(tasks, store.upstreams(list(tasks)), strict=True)),
        "waits": {id: (sorted(store.waits(id, 99)[0]), store.waits(id, 99)[1]) for id in tasks},
        "flows": store.flows(None, 99).flows,
        "order": {queue.name: _ids(store, queue.name) for queue in store.queues()},
        "ahead": {id: store.ahead(id) for id in tasks},
        "queues": {queue.name: replace(queue, workers=0) for queue in store.queues()},
        "failures": {each.fingerprint: each for each in store.failures((), 99).failures},
        "schedules": store.schedules(),
        "access": store.read_shared("access"),
        "files": {
            sha256: store.get_file(sha256) for sha256 in store.old_files(store.now() + 1, 99)
        },
        "notices": store.notices(None, None, None, 999).notices,
        "figures": {step: _figures(store, step) for step in KEPT},
        "purged": store.submit([new("gone")])[0].purged if store.seal() is None else None,
    }


def _ids(store: Store, queue: str) -> list[str]:
    return [task.id for task in store.peek(queue, 99)]


def _figures(store: Store, step: int) -> list[Any]:
    until = store.now() + 86400
    of_queues = store.figures(until - 10 * 86400, until, step, [])
    return [*of_queues, *store.figures(until - 10 * 86400, until, step, None)]


def _of_attempts(attempts: dict[str, list[Any]], read: Callable[[str, int], Any]) -> dict[Any, Any]:
    return {
        (id, each.attempt): read(id, each.attempt) for id, some in attempts.items() for each in some
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What differs, named briefly."""
    found = []
    for what, value in one.items():
        if isinstance(value, dict):
            keys = [
                key for key in {**value, **other[what]} if value.get(key) != other[what].get(key)
            ]
            found += [f"{what} {key}: {value.get(key)} != {other[what].get(key)}" for key in keys]
        elif value != other[what]:
            found.append(f"{what}: {value} != {other[what]}")
    return found


class Breaking:
    """Kills the process at the n-th change of a store, before or after it was made."""

    def __init__(self, patch: pytest.MonkeyPatch, *stores: Store) -> None:
        self.left = -1
        self.after = False
        for store in stores:
            for name in ("put_seal", "load"):
                patch.setattr(store, name, self._breaking(getattr(store, name)))

    def _breaking(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def broken(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise Killed
            answer = call(*args)
            if self.left == 0:
                raise Killed
            return answer

        return broken
