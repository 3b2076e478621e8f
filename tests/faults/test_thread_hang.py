"""A task that keeps all threads of its pool from running: it is said, and ended when it may be."""

from __future__ import annotations

import signal

from stayer.core.model import Policy
from stayer.core.worker_model import Worker
from stayer.service.control import tasks as control
from stayer.service.explain import explain
from tests.cli.running import Apart
from tests.faults.fleet import until
from tests.faults.pools import PoolFleet

LONG = 600
"""Seconds for which a task keeps the GIL: longer than any test."""


FLEET = PoolFleet


def hang(fleet: PoolFleet, id: str = "gil", **policy: float) -> None:
    """Submit a task that never lets go of the GIL."""
    given = Policy(**policy) if policy else None  # type: ignore[arg-type]
    fleet.call(id, "hold_the_gil", path=str(fleet.stamps(id)), seconds=LONG, policy=given)


def the_worker(fleet: PoolFleet) -> Worker:
    [worker] = fleet.store.workers()
    return worker


def is_stuck(fleet: PoolFleet) -> bool:
    handles = the_worker(fleet).handles
    return handles is not None and handles.answered_at is not None


def why(fleet: PoolFleet, id: str) -> str:
    return "; ".join(reason.text for reason in explain(fleet.store, id).reasons)


def test_threads_that_do_not_answer_are_told_of(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    hang(fleet)
    fleet.until_stamped("gil")
    fleet.call("behind", "double", n=1)
    until(lambda: is_stuck(fleet), "for the worker to notice")

    assert "gil" in fleet.log_of().read_text()
    assert "have not answered" in fleet.log_of().read_text()
    assert "have not answered for" in why(fleet, "gil")
    assert "about to start" not in why(fleet, "gil")
    assert "have not answered for" in why(fleet, "behind")
    assert "next to be taken" not in why(fleet, "behind")
    assert explain(fleet.store, "behind").forecast is None

    control.cancel(fleet.store, "gil", grace=LONG)
    assert "killed if it does not" not in why(fleet, "gil")

    stayer = Apart({"STAYER_STORE": fleet.url, "COLUMNS": "200"}, fleet.folder)
    assert "STUCK" in stayer("workers").out
    [found] = [each for each in stayer("doctor", "--json").json if each["check"] == "workers"]
    assert (found["status"], "have not answered" in found["message"]) == ("warn", True)


def test_a_pool_that_stands_still_and_goes_on_is_as_before(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker()
    fleet.call("a", "double", n=1)
    fleet.until_ended("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    fleet.signal(pool, signal.SIGSTOP)
    until(lambda: is_stuck(fleet), "for the worker to notice")
    fleet.signal(pool, signal.SIGCONT)
    until(lambda: not is_stuck(fleet), "for the worker to notice")
    assert fleet.pool_of(worker) == pool
    fleet.call("b", "double", n=2)
    assert fleet.until_ended("b").result == 4


def test_a_time_limit_ends_what_keeps_all_threads_from_running(fleet: PoolFleet) -> None:
    fleet.pool_worker(grace=1.0)
    fleet.call_stamper("innocent")
    fleet.until_stamped("innocent")
    hang(fleet, time_limit=1.0)
    fleet.until_stamped("gil")
    fleet.call("behind", "double", n=1)

    ended = fleet.until_ended("gil")

    assert (ended.state, ended.ending) == ("failed", "timeout")
    assert fleet.until_ended("behind").result == 2
    fleet.until_stamped("innocent", attempt=2)
    fleet.finish("innocent")
    assert fleet.until_ended("innocent").state == "complete"
    assert fleet.endings("innocent") == ["lost", "done"]
    fleet.assert_no_overlap("innocent")
    assert not is_stuck(fleet)


def test_a_cancel_ends_what_keeps_all_threads_from_running(fleet: PoolFleet) -> None:
    fleet.pool_worker(grace=1.0)
    hang(fleet)
    fleet.until_stamped("gil")
    control.cancel(fleet.store, "gil")

    assert fleet.until_ended("gil").state == "cancelled"
    fleet.call("behind", "double", n=1)
    assert fleet.until_ended("behind").result == 2
