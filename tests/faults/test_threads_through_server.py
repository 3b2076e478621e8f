"""Functions in threads behind a server: what `test_threads` has of a database, as far as the way
there makes a difference.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from tests.faults.fleet import until
from tests.faults.pools import PoolFleet
from tests.faults.served_fleet import LossyProxy, ServedFleet


class ServedPools(ServedFleet, PoolFleet):
    """Workers with threads that know a URL and a token."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ServedPools]:
    fleet = ServedPools(tmp_path)
    yield fleet
    fleet.close()


def test_functions_run_with_all_that_a_task_has(fleet: ServedPools) -> None:
    fleet.pool_worker(lease=60)
    ids = [fleet.call(f"d{n}", "double", n=n) for n in range(40)]
    assert [task.result for task in fleet.until_all_ended(ids)] == [2 * n for n in range(40)]

    fleet.call("t", "talk")
    talked = fleet.until_ended("t")
    assert (talked.state, talked.progress and talked.progress.message) == ("complete", "begun")
    assert b"a line of t" in b"".join(each.data for each in fleet.store.log("t", 1, 0, 10_000))
    fleet.call("s", "steps", path=str(fleet.stamps("s")), options={"retries": 1, "retry_wait": 0.0})
    stepped = fleet.until_ended("s")
    assert (stepped.state, stepped.attempt) == ("complete", 2)
    assert isinstance(stepped.result, list)
    assert stepped.result[1] == {"at": 7}
    fleet.call("f", "fail")
    assert fleet.until_ended("f").state == "failed"


def test_a_function_is_woken_cancelled_and_handed_back(fleet: ServedPools) -> None:
    worker = fleet.pool_worker(lease=60)
    until(lambda: [each for each in fleet.store.workers() if each.running == 0], "for it")
    fleet.call("a", "patient", path=str(fleet.stamps("a")))
    fleet.until_stamped("a")
    control.cancel(fleet.store, "a")
    assert fleet.until_ended("a").state == "cancelled"

    fleet.call("b", "patient_async", path=str(fleet.stamps("b")))
    fleet.until_stamped("b")
    [known] = fleet.store.workers()
    worker_control.set_worker(fleet.store, known.id, slots=2)
    until(lambda: fleet.store.workers()[0].slots == 2, "for it to have two")
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert (fleet.get("b").state, fleet.endings("b")) == ("pending", ["interrupted"])
    assert fleet.store.workers() == []


def test_what_a_killed_pool_ran_runs_again(fleet: ServedPools) -> None:
    worker = fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    os.kill(pool, signal.SIGKILL)
    fleet.until_stamped("a", attempt=2)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    assert fleet.endings("a") == ["lost", "done"]
    fleet.assert_no_overlap("a")


def test_what_ends_while_the_server_is_away_is_recorded_once(fleet: ServedPools) -> None:
    fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_state("a", "started")
    fleet.kill()
    fleet.finish("a")
    before = len(fleet.read_stamps("a")[1])
    fleet.restart()
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.result) == ("complete", 1, "stamped")
    assert before <= len(fleet.read_stamps("a")[1])
    assert fleet.endings("a") == ["done"]


@pytest.mark.long
def test_a_worker_that_stands_still_past_its_lease_never_overlaps(fleet: ServedPools) -> None:
    one = fleet.pool_worker("one", lease=6.0)
    fleet.call_stamper("a")
    fleet.until_state("a", "started")
    fleet.pool_worker("two", lease=6.0)
    fleet.signal(one, signal.SIGSTOP)
    fleet.until_stamped("a", attempt=2)
    fleet.signal(one, signal.SIGCONT)
    before = len(fleet.read_stamps("a")[2])
    fleet.until_stamped("a", attempt=2, more_than=before + 50)
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 2
    assert fleet.endings("a") == ["lost", "done"]
    fleet.assert_no_overlap("a")


@pytest.mark.long
def test_answers_that_get_lost_lose_and_double_no_end(fleet: ServedPools) -> None:
    proxy = LossyProxy(fleet.server.port)
    fleet.url = proxy.url
    fleet.pool_worker("one", lease=20)
    fleet.pool_worker("two", lease=20)
    ids = [fleet.call(f"d{n}", "double", n=n) for n in range(100)]
    until(lambda: proxy.lost > 20)
    assert {task.state for task in fleet.until_all_ended(ids)} == {"complete"}
    assert all(fleet.endings(id).count("done") == 1 for id in ids)
    proxy.close()
