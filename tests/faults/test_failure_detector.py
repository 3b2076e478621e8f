"""A server notices that a worker is dead, though no other worker lives long enough to see it, and
gives its tasks back as soon as somebody is there to take them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.service.lease.failure_detector import Watcher
from stayer.store import Store
from tests.faults.fleet import Fleet, until
from tests.http.serving import Process

LEASE = 8.0
INTERVAL = LEASE / 8


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The watcher's clock, in one place."""
    moments = [1000.0]
    monkeypatch.setattr("stayer.service.lease.failure_detector.moment", lambda: moments[0])
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


def somebody_comes(store: Store, queue: str = "default", number: int = 1) -> None:
    """Another worker, which has just beaten."""
    worker = Worker(id="new", node="there", pid=2, lease=LEASE, queues=(queue,))
    store.beat(worker, number, f"new {number}", [])


def state(store: Store) -> str:
    [task] = store.get(["a"])
    assert task is not None
    return task.state


def kill_with_its_tasks(fleet: Fleet, worker: int) -> None:
    fleet.signal(worker, signal.SIGKILL)
    for pid in [*fleet.keepers(), *fleet.strays()]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_task_of_a_dead_worker_goes_to_the_next_that_comes(fleet: Fleet) -> None:
    server = Process(fleet.folder, fleet.url)
    try:
        worker = fleet.worker(lease=2.0)
        fleet.stamper("a")
        fleet.until_state("a", "started")
        fleet.until_stamped("a")
        [known] = fleet.store.workers()  # the server is none
        assert known.pid == worker
        kill_with_its_tasks(fleet, worker)

        # Nobody else is there: it is told of, and left to its worker
        until(lambda: f"{known.id} is silent" in server.log.read_text(), "for the server to tell")
        assert [each.id for each in fleet.store.workers()] == [known.id]
        assert fleet.get("a").state == "started"

        # Then one comes that is far from having seen a lease go by
        fleet.worker("two", lease=3600.0)
        until(lambda: fleet.get("a").attempt == 2, "for its second attempt")
        assert fleet.get("a").losses == 1
        [event] = [each for each in fleet.store.events("a") if each.note and "lost" in each.note]
        assert f"worker {known.id} lost" in (event.note or "")
        until(
            lambda: f"declared lost: {known.id}" in server.log.read_text(), "for the server to tell"
        )
    finally:
        server.stop()


def test_a_worker_that_comes_back_late_goes_on_where_it_was(fleet: Fleet) -> None:
    server = Process(fleet.folder, fleet.url)
    try:
        worker = fleet.worker(lease=2.0)
        fleet.stamper("a")
        fleet.until_stamped("a")
        fleet.signal(worker, signal.SIGKILL)
        until(lambda: "is silent" in server.log.read_text(), "for the server to tell")
        fleet.worker(lease=2.0)
        fleet.finish("a")
        ended = fleet.until_ended("a")
        assert (ended.state, ended.attempt, ended.losses) == ("complete", 1, 0)
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
    somebody_comes(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    assert (watcher.pause, state(fleet.store)) == (INTERVAL, "reserved")
    somebody_comes(fleet.store, number=2)
    watch(watcher, now, looks=1)
    assert state(fleet.store) == "pending"


def test_without_another_worker_of_its_queue_it_keeps_its_tasks(
    fleet: Fleet, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    worker = hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=50)
    somebody_comes(fleet.store, queue="other")
    watch(watcher, now, looks=2)
    assert state(fleet.store) == "reserved"
    assert sum("is silent" in each.getMessage() for each in caplog.records) == 1

    # One that comes back is no longer held to be dead
    fleet.store.beat(worker, 2, "second", [])
    somebody_comes(fleet.store)
    watch(watcher, now, looks=2)
    assert state(fleet.store) == "reserved"


def test_who_was_dead_before_a_gap_is_given_up_when_somebody_comes(
    fleet: Fleet, now: list[float]
) -> None:
    hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=12)
    now[0] += 100 * INTERVAL
    somebody_comes(fleet.store)
    watch(watcher, now, looks=1)
    assert state(fleet.store) == "pending"


def test_who_has_slept_begins_anew(fleet: Fleet, now: list[float]) -> None:
    hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    now[0] += 3 * INTERVAL
    somebody_comes(fleet.store)
    watch(watcher, now, looks=10)
    assert state(fleet.store) == "reserved"


def test_one_that_beats_is_never_given_up(fleet: Fleet, now: list[float]) -> None:
    worker = hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    for number in range(2, 60, 2):
        somebody_comes(fleet.store, number=number - 1)
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

    def beat_first(id: str, number: int | None = None, is_lost: bool = False) -> object:
        fleet.store.beat(worker, 2, "just in time", [])
        return drop(id, number, is_lost)

    monkeypatch.setattr(fleet.store, "drop_worker", beat_first)
    somebody_comes(fleet.store)
    watch(watcher, now, looks=2)
    assert state(fleet.store) == "reserved"
    assert [each.id for each in fleet.store.workers()] == ["w", "new"]


def test_one_that_keeps_its_tasks_is_nobody_s_to_give_up(fleet: Fleet, now: list[float]) -> None:
    hold_a_task(fleet.store, keeps=True)
    somebody_comes(fleet.store)
    watch(Watcher(fleet.store), now, looks=200)
    assert state(fleet.store) == "reserved"


def test_one_that_can_not_be_given_up_keeps_no_other_waiting(
    fleet: Fleet, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    another = Worker(id="a", node="here", pid=1, lease=LEASE, queues=("default",))
    fleet.store.beat(another, 1, "first", [])
    hold_a_task(fleet.store)
    drop = fleet.store.drop_worker

    def fail_for_one(id: str, number: int | None = None, is_lost: bool = False) -> object:
        if id == "a":
            raise StoreUnreachable("its part of the store is away")
        return drop(id, number, is_lost)

    monkeypatch.setattr(fleet.store, "drop_worker", fail_for_one)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=10)
    somebody_comes(fleet.store)
    with pytest.raises(StoreUnreachable):
        watcher.look()
    assert state(fleet.store) == "pending"
    monkeypatch.undo()
    watcher.look()
    assert [each.id for each in fleet.store.workers()] == ["new"]


def test_a_lost_worker_whose_tasks_were_half_returned_is_finished_at_the_next_look(
    fleet: Fleet, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_a_task(fleet.store)
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=12)
    somebody_comes(fleet.store)

    def fail(changes: object) -> object:
        raise StoreUnreachable("away")

    monkeypatch.setattr(fleet.store, "commit", fail)
    with pytest.raises(StoreUnreachable):
        watcher.look()
    assert [each.id for each in fleet.store.workers()] == ["new"], "it is declared lost"
    assert state(fleet.store) == "reserved"
    monkeypatch.undo()
    watcher.look()
    assert state(fleet.store) == "pending"


def test_a_lost_worker_whose_judge_died_half_way_is_finished_by_any_server(
    fleet: Fleet, now: list[float]
) -> None:
    watcher = Watcher(fleet.store)
    watch(watcher, now, looks=1)
    hold_a_task(fleet.store)
    assert fleet.store.drop_worker("w", 1)
    watch(watcher, now, looks=1)
    assert state(fleet.store) == "reserved", "it looks for those now and then"
    now[0] += 60
    watch(watcher, now, looks=1)
    assert state(fleet.store) == "pending"


def test_a_server_that_is_started_again_finishes_what_it_had_begun(
    fleet: Fleet, now: list[float]
) -> None:
    hold_a_task(fleet.store)
    assert fleet.store.drop_worker("w", 1)
    Watcher(fleet.store).look()
    assert state(fleet.store) == "pending"
