"""Tasks in threads: what they may do to their worker, and what becomes of them then."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from tests.contract.builders import new
from tests.faults.fleet import until
from tests.faults.pools import PoolFleet, children, is_alive
from tests.faults.test_store_gone import store_gone

FLEET = PoolFleet


# What dies


def test_a_crash_of_the_pool_is_a_loss_of_what_ran_and_it_begins_again(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    fleet.call("a", "die_once", path=str(fleet.stamps("a")))
    task = fleet.until_ended("a")
    assert (task.state, task.result, task.failures) == ("complete", 2, 0)
    assert fleet.endings("a") == ["lost", "done"]
    assert "exit code 3" in fleet.log_of().read_text()


def test_a_task_that_kills_its_pool_is_set_aside_and_others_are_not(fleet: PoolFleet) -> None:
    others = [fleet.call(id, "nap", path=str(fleet.stamps(id))) for id in ("x", "y", "z")]
    fleet.call("a", "die", path=str(fleet.stamps("a")))
    fleet.pool_worker(threads=4)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", "lost")
    assert fleet.endings("a").count("lost") == 3
    assert "SIGSEGV" in fleet.log_of().read_text()
    assert {task.state for task in fleet.until_all_ended(others)} == {"complete"}
    for id in others:
        fleet.assert_no_overlap(id)


@pytest.mark.parametrize("which", ["pool", "guard"])
def test_whoever_kills_pool_or_guard_the_task_runs_again(fleet: PoolFleet, which: str) -> None:
    worker = fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    os.kill(pool if which == "pool" else children(worker)[0], signal.SIGKILL)
    fleet.until_stamped("a", attempt=2)
    assert not is_alive(pool)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")
    assert fleet.endings("a") == ["lost" if which == "pool" else "interrupted", "done"]


def test_the_pool_dies_with_its_worker_and_the_next_one_hands_back(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    guard, pool = children(worker)[0], fleet.pool_of(worker)
    assert pool is not None
    fleet.signal(worker, signal.SIGKILL)
    until(lambda: not is_alive(pool) and not is_alive(guard), "for the pool to die")
    identity = fleet.get("a").worker
    fleet.pool_worker(lease=60)
    fleet.until_stamped("a", attempt=2)
    assert fleet.get("a").worker == identity
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")


def test_a_dead_node_is_declared_lost_and_another_takes_over(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker("one")
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    fleet.pool_worker("two")
    fleet.signal(worker, signal.SIGKILL)
    fleet.until_stamped("a", attempt=2)
    assert fleet.get("a").node == "two"
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")


# What stands still


def test_a_worker_stopped_for_longer_than_its_lease_loses_its_pool_in_time(
    fleet: PoolFleet,
) -> None:
    worker = fleet.pool_worker("one")
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    fleet.pool_worker("two")
    fleet.signal(worker, signal.SIGSTOP)
    fleet.until_stamped("a", attempt=2, more_than=20)
    assert not is_alive(pool)
    assert fleet.get("a").node == "two"
    fleet.signal(worker, signal.SIGCONT)
    until(lambda: "lost its lease" in fleet.log_of("one").read_text())
    fleet.assert_no_overlap("a")
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")
    fleet.call("b", "double", n=1)
    assert fleet.until_ended("b").result == 2


@pytest.mark.parametrize("which", ["pool", "guard"])
def test_a_stopped_pool_or_guard_does_not_outlive_the_lease(fleet: PoolFleet, which: str) -> None:
    worker = fleet.pool_worker("one")
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool, guard = fleet.pool_of(worker), children(worker)[0]
    assert pool is not None
    fleet.signal(pool if which == "pool" else guard, signal.SIGSTOP)
    fleet.signal(worker, signal.SIGSTOP)
    until(lambda: not is_alive(pool), "for the pool to be killed")
    fleet.signal(worker, signal.SIGCONT)
    fleet.until_stamped("a", attempt=2)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")


def test_a_task_that_holds_the_gil_for_longer_than_the_lease_runs_once(fleet: PoolFleet) -> None:
    fleet.pool_worker("one", lease=2)
    fleet.pool_worker("two", lease=2)
    fleet.call("a", "hold_the_gil", path=str(fleet.stamps("a")), seconds=6)
    task = fleet.until_ended("a")
    assert (task.state, task.result, task.attempt) == ("complete", 6, 1)
    assert len(fleet.read_stamps("a")[1]) == 1


# The store


def test_results_wait_in_memory_for_a_store_that_is_away(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    with store_gone(fleet):
        fleet.finish("a")
        seen = fleet.log_of().read_text().count("asking the store again")
        until(lambda: fleet.log_of().read_text().count("asking the store again") > seen)
    task = fleet.until_ended("a")
    assert (task.state, task.result, task.attempt) == ("complete", "stamped", 1)
    assert fleet.endings("a") == ["done"]


def test_a_store_away_for_longer_than_the_lease_ends_the_pool_and_frees_its_tasks(
    fleet: PoolFleet,
) -> None:
    # Long enough for a busy machine: a pool that starves for it is killed once more, rightly.
    worker = fleet.pool_worker(lease=5)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    with store_gone(fleet):
        until(lambda: not is_alive(pool), "for the pool to be killed")
    fleet.until_stamped("a", attempt=2)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    assert fleet.endings("a") == ["interrupted", "done"]
    fleet.assert_no_overlap("a")


def test_a_late_finish_is_refused(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_state("a", "started")
    # As if its worker had been declared lost, and it had been touched since; nobody is to take it
    # meanwhile.
    fleet.store.set_queue("default", paused=True)
    worker_control.return_lost_tasks(fleet.store, [fleet.get("a")])
    control.hold(fleet.store, "a")
    fleet.finish("a")
    until(lambda: "the outcome of task a is refused" in fleet.log_of().read_text())
    assert fleet.get("a").state == "pending"
    assert fleet.endings("a") == ["lost"]


# Signals


def test_term_lets_what_runs_finish(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker(threads=1)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    fleet.call("b", "double", n=1)
    fleet.signal(worker, signal.SIGTERM)
    until(lambda: fleet.was_asked_to_stop("a"))
    fleet.finish("a")
    assert fleet.end_of(worker) == 0
    assert fleet.get("a").state == "complete"
    assert fleet.get("b").state == "pending"
    assert fleet.store.workers() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGUSR1, 5)])
def test_who_has_nothing_to_do_leaves_at_once(fleet: PoolFleet, number: int, code: int) -> None:
    worker = fleet.pool_worker(grace=600)
    fleet.call("a", "double", n=1)
    fleet.until_state("a", "complete")
    fleet.signal(worker, number)
    assert fleet.end_of(worker) == code
    assert fleet.store.workers() == []


def test_what_does_not_end_in_the_grace_is_handed_back(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker(grace=1)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    pool = fleet.pool_of(worker)
    assert pool is not None
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert not is_alive(pool)
    task = fleet.get("a")
    assert (task.state, task.ending, task.losses) == ("pending", "interrupted", 0)


def test_a_task_that_looks_is_handed_back_before_the_grace_is_over(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker(grace=600)
    fleet.call("a", "patient", path=str(fleet.stamps("a")))
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGHUP)
    assert fleet.end_of(worker) == 0
    assert (fleet.get("a").state, fleet.endings("a")) == ("pending", ["interrupted"])


def test_quit_kills_at_once(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker(grace=600)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGQUIT)
    assert fleet.end_of(worker) == 0
    assert (fleet.get("a").state, fleet.endings("a")) == ("pending", ["interrupted"])


def test_a_drained_worker_finishes_what_runs_and_takes_no_more(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker()
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGUSR1)
    until(lambda: fleet.store.workers()[0].state == "DRAINING")
    fleet.call("b", "double", n=1)
    fleet.finish("a")
    assert fleet.end_of(worker) == 5
    assert (fleet.get("a").state, fleet.get("b").state) == ("complete", "pending")


def test_a_worker_that_was_killed_again_and_again_loses_nothing(fleet: PoolFleet) -> None:
    ids = [fleet.call(f"t{number}", "double", n=number) for number in range(3000)]
    for wanted in range(1, 2000, 500):
        worker = fleet.pool_worker(lease=60)
        until(partial(fleet.has_completed, wanted))
        fleet.signal(worker, signal.SIGKILL)
    fleet.pool_worker(lease=60)
    tasks = fleet.until_all_ended(ids)
    assert [task.result for task in tasks] == [2 * number for number in range(3000)]
    assert all([*fleet.endings(id)].count("done") == 1 for id in ids[::100])


def test_what_is_no_longer_ours_is_asked_to_stop(fleet: PoolFleet) -> None:
    fleet.pool_worker(threads=1, lease=2)
    fleet.call("a", "patient", path=str(fleet.stamps("a")))
    fleet.until_state("a", "started")
    # As if its worker had been declared lost, and it had been touched since; nobody is to take it
    # meanwhile.
    fleet.store.set_queue("default", paused=True)
    worker_control.return_lost_tasks(fleet.store, [fleet.get("a")])
    control.hold(fleet.store, "a")
    fleet.store.set_queue("default", paused=False)
    fleet.call("b", "double", n=1)  # for which there is a thread only when that one has ended
    assert fleet.until_ended("b").result == 2


def test_queues_and_threads_are_changed_while_tasks_run(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    [known] = fleet.store.workers()
    fleet.store.submit([new("elsewhere", "b", name="double", parameters={"n": 2})])
    worker_control.set_worker(fleet.store, known.id, queues=["b"], slots=1)

    until(lambda: fleet.store.workers()[0].slots == 1, "for it to say so")
    fleet.call("late", "double", n=3)
    assert fleet.get("elsewhere").state == "pending"  # its only thread is at work
    (fleet.folder / "a.stop").touch()

    assert fleet.until_ended("a").state == "complete"
    assert fleet.until_ended("elsewhere").result == 4
    assert fleet.get("late").state == "pending"
    worker_control.set_worker(fleet.store, known.id, reset=True)
    assert fleet.until_ended("late").result == 6
    assert fleet.store.workers()[0].id == known.id
