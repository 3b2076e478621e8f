"""Functions in threads behind a server: what depends on the way there. What else holds of threads
is in `test_threads` and `test_thread_outcomes`; `conftest` says which of it goes this way too.
"""

from __future__ import annotations

import signal

import pytest

from stayer.service.control import workers as worker_control
from tests.faults.fleet import until
from tests.faults.served_fleet import LossyProxy, ServedPools

FLEET = ServedPools


def test_a_worker_that_waits_is_woken_and_hands_back_what_it_is_not_to_finish(
    fleet: ServedPools,
) -> None:
    worker = fleet.pool_worker(lease=60)
    until(lambda: [each for each in fleet.store.workers() if each.running == 0], "for it")
    fleet.call("b", "patient_async", path=str(fleet.stamps("b")))
    fleet.until_stamped("b")
    [known] = fleet.store.workers()
    worker_control.set_worker(fleet.store, known.id, slots=2)
    until(lambda: fleet.store.workers()[0].slots == 2, "for it to have two")
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert (fleet.get("b").state, fleet.endings("b")) == ("pending", ["interrupted"])
    assert fleet.store.workers() == []


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
