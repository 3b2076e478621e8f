"""The worker is killed, stopped, restarted: its tasks don't notice, or go elsewhere."""

from __future__ import annotations

import os
import signal

from stayer.core.model import FINISHED
from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until


def test_a_task_outlives_its_worker_and_is_recorded_by_the_next_one(fleet: Fleet) -> None:
    worker = fleet.worker(lease=30)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGKILL)
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 20)  # it runs on with nobody there

    fleet.worker(lease=30)
    until(lambda: "adopted" in [event.event for event in fleet.store.events("a")])
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert fleet.endings("a") == ["done"]
    assert list(fleet.read_stamps("a")) == [1]
    # Where it is slow to adopt it, the task stands still for a while.
    assert [each.event for each in fleet.store.events("a") if each.event != "thawed"] == [
        "pending", "reserved", "started", "adopted", "complete"
    ]  # fmt: skip


def test_a_task_that_ends_while_no_worker_lives_is_recorded(fleet: Fleet) -> None:
    worker = fleet.worker(lease=30)
    fleet.submit("a", "sh", "-c", f"while [ ! -e {fleet.folder}/a.stop ]; do sleep 0.01; done; "
                 "echo 42 > $STAYER_RESULT; echo said")  # fmt: skip
    fleet.until_state("a", "started")
    fleet.signal(worker, signal.SIGKILL)
    fleet.finish("a")
    until(lambda: list((fleet.folder / "one" / "run").glob("a.1/exit")))
    fleet.worker(lease=30)
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.result) == ("complete", 1, 42)
    assert b"".join(piece.data for piece in fleet.store.log("a", 1, 0, 1000)) == b"said\n"


def test_what_is_lost_with_its_node_runs_again_elsewhere(fleet: Fleet) -> None:
    script = (
        "import os, sys\n"
        "saved = os.environ['STAYER_CHECKPOINT']\n"
        "if os.path.exists(saved):\n"
        "    print('from', open(saved).read()); sys.exit()\n"
        "open(saved + '.new', 'w').write('half'); os.rename(saved + '.new', saved)\n"
        "import time; time.sleep(1000)\n"
    )
    worker = fleet.worker("one")
    fleet.submit("a", fleet.python, "-c", script)
    until(lambda: fleet.store.checkpoint("a"))
    fleet.signal(worker, signal.SIGSTOP)
    for pid in fleet.keepers("one"):
        os.kill(pid, signal.SIGKILL)
    fleet.signal(worker, signal.SIGKILL)
    until(lambda: not fleet.strays())

    fleet.worker("two")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.failures) == ("complete", 2, 0)
    assert fleet.endings("a") == ["lost", "done"]
    assert b"from half" in b"".join(piece.data for piece in fleet.store.log("a", 2, 0, 1000))


def test_a_stopped_worker_freezes_before_another_takes_its_task(fleet: Fleet) -> None:
    one = fleet.worker("one")
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.worker("two")
    fleet.signal(one, signal.SIGSTOP)
    fleet.until_stamped("a", attempt=2)
    fleet.signal(one, signal.SIGCONT)
    fleet.until_stamped("a", attempt=2, more_than=200)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 2)
    fleet.assert_no_overlap("a")
    assert fleet.endings("a") == ["lost", "done"]
    until(lambda: not fleet.strays())


def test_a_healthy_task_much_longer_than_the_lease_runs_once(fleet: Fleet) -> None:
    lease = 2.0
    for name in ("one", "two"):
        fleet.worker(name, lease=lease)
    # A PyDLL keeps the GIL while it is in C.
    hold_the_gil = f"import ctypes; ctypes.PyDLL(None).sleep({3 * int(lease)})"
    fleet.submit("gil", fleet.python, "-c", hold_the_gil)
    fleet.submit("long", "sh", "-c", f"sleep {10 * lease}")
    heard: dict[str, tuple[int, float]] = {}
    silence = 0.0

    def both_ended() -> bool:
        nonlocal silence
        for worker in fleet.store.workers():
            number, since = heard.get(worker.id, (0, 0.0))
            if number != worker.number:
                heard[worker.id] = worker.number, moment()
            else:
                silence = max(silence, moment() - since)
        return all(fleet.get(id).state in FINISHED for id in ("gil", "long"))

    until(both_ended)
    assert [fleet.get(id).state for id in ("gil", "long")] == ["complete", "complete"]
    # Four beats missed in a row: this machine was too busy for a lease as short as that, and
    # whoever is silent for all of it is rightly declared lost.
    if silence < lease / 2:
        assert [fleet.get(id).attempt for id in ("gil", "long")] == [1, 1]


def test_term_hands_tasks_back_to_the_front(fleet: Fleet) -> None:
    worker = fleet.worker("one", slots=1)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.submit("b", "true")
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert fleet.get("a").state == "pending"
    assert (fleet.get("a").interruptions, fleet.get("a").failures) == (1, 0)
    assert [task.id for task in fleet.store.peek("default", 2)] == ["a", "b"]
    assert fleet.store.workers() == []
    until(lambda: not fleet.strays())
    until(lambda: not fleet.keepers("one"))  # the nursery has retired


def test_hup_leaves_tasks_running_for_the_next_worker(fleet: Fleet) -> None:
    worker = fleet.worker(lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGHUP)
    assert fleet.end_of(worker) == 0
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 20)
    fleet.worker(lease=30)
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


def test_a_worker_takes_over_from_another(fleet: Fleet) -> None:
    old = fleet.worker(lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    new = fleet.worker(lease=30, take_over=True)
    assert fleet.end_of(old) == 0
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1
    fleet.signal(new, signal.SIGTERM)
    assert fleet.end_of(new) == 0


def test_a_second_worker_on_one_state_directory_is_refused(fleet: Fleet) -> None:
    fleet.worker(lease=30)
    until(fleet.store.workers)
    second = fleet.worker(lease=30)
    assert fleet.end_of(second) == 2
    assert "another worker" in (fleet.folder / "one.log").read_text()


def test_drain_finishes_what_runs_and_takes_no_more(fleet: Fleet) -> None:
    worker = fleet.worker(slots=1)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.submit("b", "true")
    fleet.signal(worker, signal.SIGUSR1)
    until(lambda: [known.state for known in fleet.store.workers()] == ["DRAINING"])
    fleet.finish("a")
    assert fleet.end_of(worker) == 5
    assert (fleet.get("a").state, fleet.get("b").state) == ("complete", "pending")


def test_a_draining_worker_leaves_its_free_slots_empty(fleet: Fleet) -> None:
    worker = fleet.worker(slots=4)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGUSR1)
    until(lambda: [known.state for known in fleet.store.workers()] == ["DRAINING"])
    fleet.submit("b", "true")
    number = fleet.store.workers()[0].number
    until(lambda: fleet.store.workers()[0].number > number + 8, "for it to have had the time")
    assert fleet.get("b").attempt == 0
    fleet.finish("a")
    assert fleet.end_of(worker) == 5
    assert fleet.get("b").state == "pending"
