"""`fence = keep`: tasks run on without a lease, so only somebody's word takes them away."""

from __future__ import annotations

import signal

from stayer.service.control import workers as worker_control
from tests.faults.fleet import Fleet, until


def test_a_silent_worker_that_keeps_is_not_declared_lost(fleet: Fleet) -> None:
    one = fleet.worker("one", "--fence", "keep")
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: fleet.get("a").state == "started")
    fleet.worker("two")
    fleet.signal(one, signal.SIGSTOP)
    fleet.stamper("b")  # the witness: work goes on elsewhere when it would be declared lost
    states = lambda: {worker.node: worker.state for worker in fleet.store.workers()}  # noqa: E731
    until(lambda: states()["one"] == "STALE")
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 1000)
    assert states()["one"] == "STALE"
    assert (fleet.get("a").state, fleet.get("a").attempt) == ("started", 1)
    fleet.signal(one, signal.SIGCONT)
    for id in ("a", "b"):
        fleet.finish(id)
    assert fleet.until_ended("a").attempt == 1
    assert fleet.until_ended("b").state == "complete"


def test_a_killed_worker_that_keeps_takes_its_tasks_up_again(fleet: Fleet) -> None:
    one = fleet.worker("one", "--fence", "keep")
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.worker("two")
    fleet.signal(one, signal.SIGKILL)
    until(lambda: "STALE" in [worker.state for worker in fleet.store.workers()])
    fleet.worker("one", "--fence", "keep")
    until(lambda: "STALE" not in [worker.state for worker in fleet.store.workers()])
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


def test_on_somebodys_word_it_is_given_up_and_killed_when_it_comes_back(fleet: Fleet) -> None:
    one = fleet.worker("one", "--fence", "keep")
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: fleet.get("a").state == "started")
    [keeper] = [worker.id for worker in fleet.store.workers()]
    fleet.signal(one, signal.SIGSTOP)
    until(lambda: "STALE" in [worker.state for worker in fleet.store.workers()])
    worker_control.drop_worker(fleet.store, keeper)
    assert fleet.get("a").state == "pending"
    fleet.signal(one, signal.SIGCONT)
    # It kills what it kept, then takes the task anew, under another name.
    fleet.until_stamped("a", attempt=2, more_than=20)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")
