"""`stayer workers set` and `stayer workers rm --force`: workers that run."""

from __future__ import annotations

import signal

import pytest

from stayer.core.worker_model import Worker
from stayer.store import Store
from tests.cli.running import Here
from tests.cli.working import Site
from tests.contract.builders import get, new, register, started, submit
from tests.faults.fleet import until


def the_worker(fleet: Site) -> Worker:
    until(fleet.store.workers, "for the worker to register")
    return fleet.store.workers()[0]


@pytest.fixture
def pid(fleet: Site) -> int:
    """A worker at work, with one slot, on the state directory `one`."""
    pid = fleet.worker()
    fleet.stamper("t")
    fleet.until_stamped("t")
    return pid


def test_queues_and_slots_are_changed_while_a_task_runs(
    stayer: Here, fleet: Site, pid: int
) -> None:
    before = the_worker(fleet)
    submit(fleet.store, new("elsewhere", "b", command=("true",)))

    done = stayer("workers", "set", before.id, "--queue", "+b", "--slots", "2").works()

    assert done.out == f"{before.id} takes tasks from default, b, 2 tasks at once\n"
    assert fleet.until_ended("elsewhere").state == "complete"
    until(lambda: the_worker(fleet).slots == 2, "for it to say so")
    assert the_worker(fleet).queues == ("default", "b")
    stayer("workers", "set", before.id, "--queue", "-default").works()
    until(lambda: the_worker(fleet).queues == ("b",), "for it to say so")
    submit(fleet.store, new("other", "b", command=("true",)))
    assert fleet.until_ended("other").state == "complete"
    fleet.submit("late", "true")
    fleet.finish("t")
    assert (fleet.until_ended("t").state, fleet.get("late").state) == ("complete", "pending")
    stayer("workers", "set", before.id, "--reset").works()
    assert fleet.until_ended("late").state == "complete"
    assert (the_worker(fleet).id, the_worker(fleet).slots) == (before.id, before.slots)


def test_what_was_changed_holds_for_the_next_process_of_the_worker(
    stayer: Here, fleet: Site, pid: int
) -> None:
    id = the_worker(fleet).id
    stayer("workers", "set", id, "-q", "b", "--slots", "3").works()
    fleet.signal(pid, signal.SIGKILL)
    fleet.worker()
    until(lambda: the_worker(fleet).queues == ("b",), "for it to hear")
    assert (the_worker(fleet).id, the_worker(fleet).slots) == (id, 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([], "say what to change"),
        (["-q", "a", "-q", "+b"], "either all queues"),
        (["-q", "-a"], "does not take tasks from a"),
        (["-q", "-q"], "no queue would be left"),
        (["-q", "+"], "queue"),
        (["--slots", "0"], "--slots"),
    ],
)
def test_what_makes_no_sense_is_refused(
    stayer: Here, store: Store, wrong: list[str], words: str
) -> None:
    register(store)
    stayer("workers", "set", "w", *wrong).refuses(words)
    assert store.workers()[0].order is None


def test_a_worker_that_is_alive_stops_and_leaves_before_its_tasks_are_given_away(
    stayer: Here, fleet: Site, pid: int
) -> None:
    id = the_worker(fleet).id

    done = stayer("workers", "rm", id, "--force", "--grace", "0s").works("waiting until it")

    assert done.out == f"{id} has stopped what it ran (1 task), and left\n"
    task = fleet.get("t")
    assert (task.state, fleet.endings("t")) == ("pending", ["interrupted"])
    assert fleet.end_of(pid) == 5
    assert fleet.keepers() == []
    fleet.worker(name="two")
    fleet.until_stamped("t", attempt=2)
    fleet.assert_no_overlap("t")


def test_a_worker_that_can_not_confirm_is_waited_for_until_its_lease_is_over(
    stayer: Here, fleet: Site, pid: int
) -> None:
    id = the_worker(fleet).id
    fleet.signal(pid, signal.SIGSTOP)

    done = stayer("workers", "rm", id, "--force").works("2.2s")

    assert done.out == f"{id} removed, 1 task returned\n"
    fleet.worker(name="two")
    fleet.until_stamped("t", attempt=2)
    fleet.assert_no_overlap("t")
    fleet.signal(pid, signal.SIGCONT)


def test_a_worker_that_keeps_its_tasks_is_not_given_up_for_its_silence(
    stayer: Here, store: Store
) -> None:
    register(store, "keeps", lease=1.0, keeps=True)
    task = started(store, "keeps")
    stayer("workers", "rm", "keeps", "--grace", "1s").refuses("--force")
    done = stayer("workers", "rm", "keeps", "--force")
    assert (done.code, done.out) == (2, "")
    assert "fence = keep" in done.err
    assert get(store, task.id).state == "started"


def test_a_worker_that_is_silent_is_given_up(stayer: Here, store: Store) -> None:
    register(store, "w", lease=1.0)
    task = started(store, "w")
    done = stayer("workers", "rm", "w", "--force", "--json").works("told to stop")
    assert done.json == {"worker": "w", "tasks": 1, "confirmed": False}
    assert get(store, task.id).state == "pending"
