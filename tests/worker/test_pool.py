"""The loop of a pool, without a worker around it."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from stayer.core.lifecycle import Done
from stayer.core.model import Task, Worker
from stayer.runners.pool import link
from stayer.runners.pool.begun import Begun
from stayer.runners.pool.calling import ThreadApp
from stayer.runners.pool.context import ThreadContext
from stayer.runners.pool.hands import Hands, InHand
from stayer.runners.pool.pool import Pool
from stayer.store import Store, Waiter
from stayer.stores import open_store
from tests.faults.fleet import until


class AnApp:
    names = ("nothing",)


class Sleepless:
    """Counts how often the pool lies down, and wakes it at once."""

    times = 0

    def wait(self, timeout: float) -> bool:
        self.times += 1
        return False

    def ring(self) -> None: ...


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/stayer.db")
    store.setup()
    store.beat(Worker(id="w", node="n", pid=1, queues=("default",)), 1, "first", [])
    yield store
    store.close()


def test_a_pool_that_is_to_finish_and_has_nothing_does_not_lie_down(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would wake it: it would leave when its worker's patience is over."""
    waiter = Sleepless()
    monkeypatch.setattr(store, "waiter", lambda *_: cast(Waiter, waiter))
    setup = link.Setup(
        store="", worker="w", app="", queues=("default",), evenly=False, threads=2, lease=60.0,
        time_limit=None, state=str(tmp_path),
    )  # fmt: skip
    ours, theirs = link.pair()
    app = cast(ThreadApp, AnApp())
    pool = Pool(setup, store, app, Begun(tmp_path / "begun", 2), ours)
    pool.hear(link.Finish(stop=True))
    pool.run()
    ours.close()
    os.close(theirs)
    assert waiter.times == 0


class Gate:
    """An app whose tasks wait until all that can run at once are at it, as short ones wait for a
    network."""

    def __init__(self, number: int) -> None:
        self._all_here = threading.Barrier(number)

    def call(self, task: ThreadContext) -> None:
        self._all_here.wait(60)


class Hasty:
    """An app whose tasks do nothing but say which thread they are in."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def call(self, task: ThreadContext) -> None:
        self.threads.append(threading.get_ident())


class Crew:
    """Hands that have been given so many tasks."""

    def __init__(self, app: object, store: Store, path: Path, number: int = 24) -> None:
        self.ended: queue.SimpleQueue[InHand] = queue.SimpleQueue()
        self.hands = Hands(cast(ThreadApp, app), 8, Begun(path, 8), self.ended.put)
        tasks = [Task(f"t{each}", "q", state="reserved", worker="w") for each in range(number)]
        contexts = [ThreadContext(task, store, lambda *_: None) for task in tasks]
        self.hands.take(InHand(each.record, each, False, 0.0) for each in contexts)
        self._wanted = {task.id for task in tasks}

    def check(self) -> None:
        jobs = [self.ended.get(timeout=60) for _ in self._wanted]
        assert {job.task.id for job in jobs} == self._wanted
        assert [job.outcome for job in jobs] == [Done(None)] * len(jobs)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    return tmp_path / "begun"


def test_tasks_that_are_not_short_get_all_threads(store: Store, begun: Path) -> None:
    crew = Crew(Gate(8), store, begun)

    def all_are_at_it() -> bool:
        crew.hands.begin()
        return len(crew.hands.running) == 8 or not crew.ended.empty()

    until(all_are_at_it)
    crew.check()


def test_a_pool_that_has_nothing_else_to_do_uses_all_threads(store: Store, begun: Path) -> None:
    crew = Crew(Gate(8), store, begun)
    crew.hands.fill()
    crew.check()


def test_short_tasks_run_one_after_the_other(store: Store, begun: Path) -> None:
    app = Hasty()
    crew = Crew(app, store, begun)
    crew.hands.begin()
    crew.check()
    assert len(set(app.threads)) == 1


def test_threads_leave_when_tasks_turn_out_to_be_short(
    store: Store, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but one, at the end of the task that each of them is at."""
    monkeypatch.setattr("stayer.runners.pool.hands._LONG", 60.0)
    gate = threading.Event()

    class Slow(Hasty):
        def call(self, task: ThreadContext) -> None:
            super().call(task)
            gate.wait(60)
            time.sleep(0.001)  # so that others would have their turn

    app = Slow()
    crew = Crew(app, store, begun)
    crew.hands.fill()
    until(lambda: len(app.threads) == 8)
    crew.hands.begin()
    gate.set()
    crew.check()
    assert len(set(app.threads[8:])) == 1
