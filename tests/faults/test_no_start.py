"""A node that can't start tasks: they are neither stuck there nor begun again without a pause."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from stayer.core.happenings import Start
from stayer.core.lifecycle import decide
from stayer.core.model import Task
from stayer.core.worker_model import Handles, Worker
from stayer.service.control import tasks as control
from stayer.worker.attempts import HeldAttempts
from stayer.worker.orphans import is_over
from stayer.worker.reconcile import reconcile
from stayer.worker.run_directory import Run
from stayer.worker.state_directory import StateDirectory
from stayer.worker.wakeup import Bell
from tests.faults.fleet import Fleet, until


def test_a_node_that_can_not_start_a_task_tries_again_less_and_less_often(fleet: Fleet) -> None:
    if os.getuid() != 0:
        pytest.skip("only root has a right to make namespaces that can be taken away")
    with open(fleet.folder / "one.log", "ab") as log:
        process = subprocess.Popen(
            [
                "setpriv", "--bounding-set=-sys_admin", sys.executable, "-m", "stayer", "worker",
                "--store", fleet.url, "--state-dir", str(fleet.folder / "one"), "--allow-commands",
                "--isolate", "pidns",
            ],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    fleet.workers.append(process)
    fleet.submit("a", "true")
    until(lambda: fleet.get("a").interruptions >= 5)
    begins = [attempt.reserved_at or 0.0 for attempt in fleet.store.attempts("a")]
    gaps = [later - earlier for earlier, later in pairwise(begins)]
    assert gaps[3] >= 0.8
    assert "takes no more for" in (fleet.folder / "one.log").read_text()


def hang(fleet: Fleet) -> int:
    """Stop the nursery, once it has a task to keep; its pid."""
    fleet.stamper("runs")
    fleet.until_stamped("runs")
    nursery = fleet.keepers("one")[0]
    os.kill(nursery, signal.SIGSTOP)
    fleet.stamper("a")
    fleet.until_state("a", "reserved")
    return nursery


def test_what_a_hanging_nursery_has_not_begun_can_be_cancelled(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    nursery = hang(fleet)
    control.cancel(fleet.store, "a")
    assert fleet.until_ended("a").state == "cancelled"
    os.kill(nursery, signal.SIGCONT)
    fleet.submit("b", "true")
    assert fleet.until_ended("b").state == "complete"
    assert not fleet.stamps("a").exists()


def test_a_hanging_nursery_does_not_hold_up_a_worker_that_is_to_go(fleet: Fleet) -> None:
    worker = fleet.worker("one", lease=30)
    nursery = hang(fleet)
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert (fleet.get("a").state, fleet.get("a").ending) == ("pending", "interrupted")
    os.kill(nursery, signal.SIGCONT)
    until(lambda: not fleet.keepers("one"), "for the nursery to retire")
    assert not fleet.stamps("a").exists()


class EndsMeanwhile(Run):
    """Its keeper writes the end and goes just when somebody looks whether it is there."""

    def has_keeper(self) -> bool:
        (self.folder / "exit").write_text('{"exit_code": 0, "stop": null}')
        return super().has_keeper()

    def void(self) -> bool:
        self.has_keeper()
        return super().void()


class Here(StateDirectory):
    """A state directory with such runs."""

    def run_for(self, task: Task) -> Run:
        run = EndsMeanwhile(super().run_for(task).folder)
        run.folder.mkdir(exist_ok=True)
        return run


@pytest.fixture
def here(fleet: Fleet) -> Here:
    """With a task that its worker does not know of, though it runs."""
    here = Here(fleet.folder / "one", "one")
    here.open()
    about = Worker(id=here.worker_id, node="one", pid=1, queues=("default",), lease=60.0)
    fleet.store.beat(about, 1, "a", ())
    fleet.submit("a", "true")
    [task] = fleet.store.reserve(here.worker_id, ("default",), 1, Handles(programs=("*",)))
    fleet.store.commit([decide(task, Start(1))])
    return here


def test_an_end_that_comes_while_one_looks_for_the_task_is_not_lost(
    fleet: Fleet, here: Here
) -> None:
    holdings = HeldAttempts(here, Bell())
    reconcile(fleet.store, here, holdings)
    assert ("a", 1) in holdings
    assert fleet.get("a").state == "started"


def test_an_end_that_comes_while_one_takes_leave_is_not_lost(fleet: Fleet, here: Here) -> None:
    assert not is_over(here.run_for(fleet.get("a")))
