"""A machine that sleeps past its lease: with a real worker, its keepers and its pool of threads.

Their clocks are the test's (see `tests/keeper/sleeping.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.core.errors import LeaseLost
from stayer.core.model import Policy
from stayer.core.worker_model import Worker
from stayer.service.control import workers as worker_control
from tests.faults.fleet import Fleet, until
from tests.faults.pools import PoolFleet, is_alive
from tests.keeper.sleeping import Clocks

HOUR = 3600.0
LEASE = 30.0
CLOCKS = Path(__file__).with_name("asleep")


FLEET = PoolFleet


@pytest.fixture
def clocks(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    (fleet.folder / "machine").mkdir()
    clocks = Clocks(fleet.folder / "machine")
    monkeypatch.setenv("STAYER_TEST_CLOCKS", str(clocks.folder))
    monkeypatch.setenv("PYTHONPATH", str(CLOCKS))
    return clocks


def log(fleet: Fleet) -> str:
    return (fleet.folder / "one.log").read_text()


def thaws(fleet: Fleet, id: str) -> list[str]:
    return [each.note or "" for each in fleet.store.events(id) if each.event == "thawed"]


def declare_lost(fleet: Fleet) -> None:
    """Another one has watched the sleeper for long enough."""
    fleet.store.beat(Worker(id="judge", node="elsewhere", pid=1), 1, "first", [])
    [sleeper] = [each for each in fleet.store.workers() if each.id != "judge"]
    worker_control.return_lost_tasks(
        fleet.store, fleet.store.declare_lost("judge", {sleeper.id: sleeper.number})
    )


def test_a_task_goes_on_where_it_was_every_time(fleet: Fleet, clocks: Clocks) -> None:
    """Nothing is charged, nothing begins from zero."""
    fleet.worker(lease=LEASE)
    fleet.stamper("a")
    for night in range(1, 5):
        fleet.until_stamped("a", more_than=len(fleet.read_stamps("a").get(1, ())))
        clocks.sleep(8 * HOUR)
        until(lambda night=night: len(thaws(fleet, "a")) == night, "for it to go on")  # type: ignore[misc]
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.losses, task.interruptions) == ("complete", 1, 0, 0)
    assert all("slept for 8h" in note for note in thaws(fleet, "a"))
    assert log(fleet).count("this machine slept for 8h") == 4
    assert log(fleet).count("task a goes on") == 4


def test_what_was_given_to_another_is_killed(fleet: Fleet, clocks: Clocks) -> None:
    fleet.worker(lease=LEASE)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.store.set_queue("default", paused=True)  # so that it is not begun again here
    declare_lost(fleet)
    clocks.sleep(HOUR)
    until(lambda: not fleet.strays(), "for the task to be gone")
    assert thaws(fleet, "a") == []
    assert "lost its lease" in log(fleet)
    assert fleet.get("a").state == "pending"


def test_a_clock_that_jumps_ahead_costs_a_moment(fleet: Fleet, clocks: Clocks) -> None:
    """As after a pause of a virtual machine, of which only the wall clock tells."""
    fleet.worker(lease=LEASE)
    fleet.stamper("a")
    fleet.until_stamped("a")
    clocks.write("wall", HOUR)
    until(lambda: thaws(fleet, "a") != [], "for it to stand still and go on")
    fleet.finish("a")
    assert (fleet.until_ended("a").state, fleet.get("a").attempt) == ("complete", 1)
    assert "the clock jumped ahead by 1h" in log(fleet)


def test_a_snapshot_that_is_restored_is_found_at_its_next_beat(fleet: Fleet) -> None:
    """Its numbers are those of yesterday."""
    old = Worker(id="w", node="here", pid=1)
    for number in (1, 2, 3):
        fleet.store.beat(old, number, f"{number}", [])
    with pytest.raises(LeaseLost):
        fleet.store.beat(old, 2, "restored", [])


def test_threads_go_on_where_they_were(fleet: PoolFleet, clocks: Clocks) -> None:
    worker = fleet.pool_worker(lease=LEASE)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    clocks.sleep(HOUR)
    until(lambda: "this machine slept for 1h" in log(fleet), "for the worker to notice")
    fleet.until_stamped("a", more_than=len(fleet.read_stamps("a")[1]) + 5)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.losses) == ("complete", 1, 0)
    assert fleet.pool_of(worker) == pool


def test_threads_that_could_not_answer_before_a_sleep_are_not_late_after_it(
    fleet: PoolFleet, clocks: Clocks
) -> None:
    worker = fleet.pool_worker(lease=6.0)
    limit = Policy(time_limit=HOUR / 2, grace=0.0)
    fleet.call("a", "hold_the_gil", path=str(fleet.stamps("a")), seconds=10, policy=limit)
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    until(lambda: "have not answered" in log(fleet), "for the worker to notice")
    clocks.sleep(HOUR)
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert fleet.pool_of(worker) == pool


def test_threads_of_one_that_was_declared_lost_are_killed(fleet: PoolFleet, clocks: Clocks) -> None:
    worker = fleet.pool_worker(lease=LEASE)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    fleet.store.set_queue("default", paused=True)
    declare_lost(fleet)
    clocks.sleep(HOUR)
    until(lambda: not is_alive(pool), "for the pool to be gone")
    assert fleet.get("a").state == "pending"
