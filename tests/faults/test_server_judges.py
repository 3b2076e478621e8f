"""A server notices that a worker is dead, though no other worker is there to see it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.model import EVERYTHING, Worker
from stayer.core.submission import new_task
from stayer.judging import Watcher
from stayer.store import Store
from tests.faults.fleet import Fleet, until
from tests.http.serving import Process

LEASE = 8.0
INTERVAL = LEASE / 8


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The watcher's clock, in one place."""
    moments = [1000.0]
    monkeypatch.setattr("stayer.judging.moment", lambda: moments[0])
    return moments


def watch(watcher: Watcher, now: list[float], looks: int, pause: float = INTERVAL) -> None:
    for _ in range(looks):
        watcher.look()
        now[0] += pause


def hold_a_task(store: Store, keeps: bool = False) -> Worker:
    """A worker that has beaten once."""
    worker = Worker(id="w", node="here", pid=1, lease=LEASE, queues=("default",), keeps=keeps)
    store.beat(worker, 1, "first", [])
    store.submit([new_task(queue="default", id="a", command=["true"])])
    assert store.reserve("w", ["default"], 1, EVERYTHING)
    return worker


def state(store: Store) -> str:
    [task] = store.get(["a"])
    assert task is not None
    return task.state


def test_the_task_of_a_dead_worker_waits_again_and_show_says_why(fleet: Fleet) -> None:
    server = Process(fleet.folder, fleet.url)
    try:
        worker = fleet.worker(lease=2.0)
        fleet.stamper("a")
        fleet.until_stamped("a")
        [known] = fleet.store.workers()  # the server is none
        assert known.pid == worker
        fleet.signal(worker, signal.SIGKILL)
        for pid in [*fleet.keepers(), *fleet.strays()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        task = fleet.until_state("a", "pending")
        assert (task.ending, task.losses) == ("lost", 1)
        assert fleet.store.workers() == []
        [event] = [
            each for each in fleet.store.events("a") if each.event == "pending" and each.note
        ]
        assert f"worker {known.id} lost" in (event.note or "")
        until(lambda: "gave up" in server.log.read_text(), "for the server to tell")
    finally:
        server.stop()


def test_a_worker_that_comes_back_in_time_keeps_its_tasks(fleet: Fleet) -> None:
    server = Process(fleet.folder, fleet.url)
    try:
        worker = fleet.worker(lease=LEASE)
        fleet.stamper("a")
        fleet.until_stamped("a")
        fleet.signal(worker, signal.SIGKILL)
        fleet.worker(lease=LEASE)
        until(lambda: "adopted task a" in (fleet.folder / "one.log").read_text(), "for its heir")
        fleet.finish("a")
        assert (fleet.until_ended("a").state, fleet.get("a").attempt) == ("complete", 1)
    finally:
        server.stop()


def test_it_takes_a_lease_and_a_margin_of_looks_without_a_gap(
    fleet: Fleet, now: list[float]
) -> None:
    hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    assert (watcher.pause, state(fleet.store)) == (INTERVAL, "reserved")
    watch(watcher, now, looks=1)
    assert state(fleet.store) == "pending"


def test_who_has_slept_begins_anew(fleet: Fleet, now: list[float]) -> None:
    hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    now[0] += 3 * INTERVAL
    watch(watcher, now, looks=10)
    assert state(fleet.store) == "reserved"


def test_one_that_beats_is_never_given_up(fleet: Fleet, now: list[float]) -> None:
    worker = hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    for number in range(2, 60, 2):
        watch(watcher, now, looks=5)
        fleet.store.beat(worker, number, str(number), [])
    assert state(fleet.store) == "reserved"


def test_one_that_beats_while_it_is_judged_stays(
    fleet: Fleet, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    drop = fleet.store.drop_worker

    def beat_first(id: str, number: int | None = None) -> object:
        fleet.store.beat(worker, 2, "just in time", [])
        return drop(id, number)

    monkeypatch.setattr(fleet.store, "drop_worker", beat_first)
    watch(watcher, now, looks=2)
    assert state(fleet.store) == "reserved"
    assert [each.id for each in fleet.store.workers()] == ["w"]


def test_one_that_keeps_its_tasks_is_nobody_s_to_give_up(fleet: Fleet, now: list[float]) -> None:
    hold_a_task(fleet.store, keeps=True)
    watch(Watcher(fleet.store), now, looks=200)
    assert state(fleet.store) == "reserved"


def test_one_that_can_not_be_given_up_keeps_no_other_waiting(
    fleet: Fleet, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.store.beat(Worker(id="a", node="here", pid=1, lease=LEASE), 1, "first", [])
    hold_a_task(fleet.store)
    drop = fleet.store.drop_worker

    def fail_for_one(id: str, number: int | None = None) -> object:
        if id == "a":
            raise StoreUnreachable("its part of the store is away")
        return drop(id, number)

    monkeypatch.setattr(fleet.store, "drop_worker", fail_for_one)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    with pytest.raises(StoreUnreachable):
        watcher.look()
    assert state(fleet.store) == "pending"
    monkeypatch.undo()
    watcher.look()
    assert fleet.store.workers() == []
