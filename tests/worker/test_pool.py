"""The loop of a pool, without a worker around it."""

from __future__ import annotations

import queue
import threading
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
    ours, _ = link.pair()
    app = cast(ThreadApp, AnApp())
    pool = Pool(setup, store, app, Begun(tmp_path / "begun", 2), ours)
    pool.hear(link.Finish(stop=True))
    pool.run()
    assert waiter.times == 0


class Gate:
    """An app whose tasks wait until all that can run at once are at it, as short ones wait for a
    network."""

    def __init__(self, number: int) -> None:
        self._all_here = threading.Barrier(number)

    def call(self, task: ThreadContext) -> None:
        self._all_here.wait(60)


def test_all_threads_have_something_to_do_however_short_it_is(store: Store, tmp_path: Path) -> None:
    ended: queue.SimpleQueue[InHand] = queue.SimpleQueue()
    hands = Hands(cast(ThreadApp, Gate(8)), 8, Begun(tmp_path / "begun", 8), ended.put)
    tasks = [Task(f"t{number}", "q", state="reserved", worker="w") for number in range(24)]
    contexts = [ThreadContext(task, store, lambda *_: None) for task in tasks]
    hands.take(InHand(each.record, each, False, 0.0) for each in contexts)
    hands.begin()
    jobs = [ended.get(timeout=60) for _ in tasks]
    assert {job.task.id for job in jobs} == {task.id for task in tasks}
    assert [job.outcome for job in jobs] == [Done(None)] * len(jobs)
