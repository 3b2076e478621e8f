"""Copies, reboots, lost answers, judges that slept: no overlap, nobody wrongly lost."""

from __future__ import annotations

import json
import shutil
import signal

from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING
from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until


def test_a_copy_of_the_state_directory_is_somebody_else(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    shutil.copytree(
        fleet.folder / "one", fleet.folder / "copy", ignore=shutil.ignore_patterns("*.fifo")
    )
    fleet.worker("copy", lease=30)
    until(lambda: len(fleet.store.workers()) == 2)
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 50)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)


def test_after_a_reboot_a_worker_is_somebody_else(fleet: Fleet) -> None:
    """The identity file says another boot: what ran then can't run now."""
    one = fleet.worker("one", lease=30)
    until(fleet.store.workers)
    [before] = fleet.store.workers()
    fleet.signal(one, signal.SIGKILL)
    path = fleet.folder / "one" / "identity"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
    fleet.worker("one", lease=30)
    until(lambda: len(fleet.store.workers()) == 2)
    assert before.id in {worker.id for worker in fleet.store.workers()}


def test_a_reserve_whose_answer_got_lost_is_handed_back(fleet: Fleet) -> None:
    fleet.worker("one")
    until(fleet.store.workers)
    [worker] = fleet.store.workers()
    fleet.store.submit([new_task(queue="elsewhere", id="a", command=["true"])])
    assert fleet.store.reserve(worker.id, ["elsewhere"], 1, EVERYTHING)
    fleet.until_state("a", "pending")
    assert fleet.endings("a") == ["interrupted"]


def test_a_run_directory_that_is_deleted_kills_its_task_first(fleet: Fleet) -> None:
    fleet.worker("one")
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    shutil.rmtree(fleet.folder / "one" / "run" / "a.1")
    fleet.until_stamped("a", attempt=2, more_than=20)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")


def test_a_judge_that_was_stopped_declares_nobody_lost_when_it_wakes(fleet: Fleet) -> None:
    fleet.worker("one")
    judge = fleet.worker("two")
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: len(fleet.store.workers()) == 2)
    [busy] = [worker for worker in fleet.store.workers() if worker.running]
    if busy.node == "two":
        judge = next(process.pid for process in fleet.workers if process.pid != judge)
    fleet.signal(judge, signal.SIGSTOP)
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 600)  # longer than a lease
    fleet.signal(judge, signal.SIGCONT)
    fleet.until_stamped("a", more_than=before + 800)
    fleet.finish("a")
    assert (fleet.until_ended("a").attempt, fleet.get("a").state) == (1, "complete")


def test_a_shorter_lease_waits_for_the_keepers_that_know_the_longer_one(fleet: Fleet) -> None:
    """They look at the lease seldom, and the kernel's timer is set by what they knew."""
    one = fleet.worker("one", lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    fleet.signal(one, signal.SIGKILL)
    fleet.worker("one", lease=2)
    until(lambda: [worker.number for worker in fleet.store.workers() if worker.number > 2])
    assert [worker.lease for worker in fleet.store.workers()] == [30]
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


def test_a_shorter_lease_holds_at_once_if_nothing_runs(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=30)
    until(fleet.store.workers)
    fleet.signal(one, signal.SIGKILL)
    fleet.worker("one", lease=2)
    until(lambda: [worker.lease for worker in fleet.store.workers()] == [2])


def test_a_judge_that_slept_as_long_as_its_suspect_does_not_declare_it_lost(fleet: Fleet) -> None:
    """As when the whole machine is suspended: both have missed their beats."""

    def number(node: str) -> int:
        [found] = [worker.number for worker in fleet.store.workers() if worker.node == node]
        return found

    lease = 12.0
    suspect = fleet.worker("one", lease=lease)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    judge = fleet.worker("two", lease=lease)
    until(lambda: len(fleet.store.workers()) == 2)
    fleet.signal(suspect, signal.SIGSTOP)
    stopped, seen = moment(), number("two")
    until(lambda: number("two") > seen + 7)  # it has had its eye on it for some beats
    fleet.signal(judge, signal.SIGSTOP)
    until(lambda: moment() > stopped + 1.7 * lease)
    seen = number("two")
    fleet.signal(judge, signal.SIGCONT)
    until(lambda: number("two") > seen + 1)  # time to judge, were it to go by what it saw before
    fleet.signal(suspect, signal.SIGCONT)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, fleet.endings("a")) == ("complete", 1, ["done"])
