"""Keepers, nurseries and run directories are taken away: no task is left behind or run twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.worker.orphans import sweep_strays
from tests.faults.fleet import STAMPER, TASK_USER, Fleet, until

ESCAPE = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", {STAMPER!r}, *sys.argv[1:]], start_new_session=True)
import time; time.sleep(1000)
"""


def _started(fleet: Fleet, id: str = "a") -> None:
    fleet.stamper(id)
    fleet.until_stamped(id)
    fleet.until_state(id, "started")


def test_nursery_and_keeper_are_killed_while_the_worker_lives(fleet: Fleet) -> None:
    """What escaped them is killed too before the task is given up."""
    fleet.worker("one", lease=60, slots=1)
    stamps, stop = str(fleet.stamps("a")), str(fleet.folder / "a.stop")
    fleet.submit("a", fleet.python, "-c", ESCAPE, stamps, stop)
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    for pid in fleet.keepers("one"):
        os.kill(pid, signal.SIGKILL)
    fleet.until_stamped("a", attempt=2)
    assert fleet.endings("a") == ["lost", None]
    fleet.assert_no_overlap("a")
    control.cancel(fleet.store, "a", grace=0)
    assert fleet.until_ended("a").state == "cancelled"
    until(lambda: not fleet.strays())


def test_a_keeper_that_lost_its_nursery_dies_while_another_nursery_lives(fleet: Fleet) -> None:
    fleet.worker("one", lease=60, slots=2)
    _started(fleet)
    nursery, keeper = fleet.keepers("one")
    os.kill(nursery, signal.SIGKILL)
    fleet.submit("b", "true")
    fleet.until_ended("b")  # by a nursery of its own
    control.cancel(fleet.store, "a", grace=1000)
    os.kill(keeper, signal.SIGKILL)
    assert fleet.until_ended("a").state == "cancelled"


def test_the_nursery_alone_is_killed(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    _started(fleet)
    os.kill(fleet.keepers("one")[0], signal.SIGKILL)
    fleet.submit("b", "true")
    fleet.until_ended("b")
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)


def test_a_deleted_run_directory_whose_keeper_stands_still(fleet: Fleet) -> None:
    fleet.worker("one", lease=120)
    _started(fleet)
    _, keeper = fleet.keepers("one")
    os.kill(keeper, signal.SIGSTOP)
    shutil.rmtree(fleet.folder / "one" / "run" / "a.1")
    fleet.until_stamped("a", attempt=2, more_than=50)
    fleet.assert_no_overlap("a")
    assert not Path(f"/proc/{keeper}").exists()


def test_the_folder_of_all_run_directories_is_deleted(fleet: Fleet) -> None:
    """The task begins again, and the node goes on as before."""
    fleet.worker("one", lease=60, slots=1)
    _started(fleet)
    shutil.rmtree(fleet.folder / "one" / "run")
    fleet.until_stamped("a", attempt=2)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    assert fleet.endings("a") == ["lost", "done"]
    fleet.assert_no_overlap("a")
    assert (fleet.folder / "one" / "run").stat().st_mode & 0o022 == 0


@pytest.mark.skipif(TASK_USER is not None, reason="a task of another user can't delete it")
def test_a_task_that_deletes_its_run_directory_each_time_is_set_aside(fleet: Fleet) -> None:
    fleet.worker("one")
    fleet.submit("a", "sh", "-c", 'sleep 0.3; rm -rf "$STAYER_DIR"; sleep 1000')
    task = fleet.until_ended("a")
    assert (task.state, task.ending, task.attempt) == ("failed", "lost", task.policy.losses)


def test_a_task_without_its_task_json_is_found_again(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=30)
    _started(fleet)
    (fleet.folder / "one" / "run" / "a.1" / "task.json").unlink()
    fleet.signal(one, signal.SIGKILL)
    fleet.worker("one", lease=30)
    control.cancel(fleet.store, "a", grace=0)
    assert fleet.until_ended("a").state == "cancelled"
    before = fleet.read_stamps("a")
    assert not fleet.strays()
    assert fleet.read_stamps("a") == before


def test_a_worker_that_goes_ends_a_task_without_its_task_json_first(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=60)
    _started(fleet)
    (fleet.folder / "one" / "run" / "a.1" / "task.json").unlink()
    fleet.signal(one, signal.SIGKILL)
    before = fleet.store.workers()[0].number
    one = fleet.worker("one", lease=60)
    until(lambda: fleet.store.workers()[0].number > before)
    fleet.signal(one, signal.SIGTERM)
    assert fleet.end_of(one) == 0
    assert fleet.get("a").state == "pending"
    fleet.worker("two", lease=60)
    fleet.until_stamped("a", attempt=2, more_than=20)
    fleet.assert_no_overlap("a")


def test_what_was_kept_without_a_lease_is_gone_before_it_runs_again(fleet: Fleet) -> None:
    one = fleet.worker("one", "--fence", "keep", lease=3)
    _started(fleet)
    [known] = fleet.store.workers()
    fleet.signal(one, signal.SIGKILL)
    until(lambda: "STALE" in [worker.state for worker in fleet.store.workers()])
    worker_control.drop_worker(fleet.store, known.id)
    fleet.worker("one", "--fence", "keep", lease=3)
    fleet.until_stamped("a", attempt=2, more_than=50)
    fleet.assert_no_overlap("a")


def test_strays_are_swept_to_the_last(tmp_path: Path) -> None:
    """Also those that start others while they are looked for; and nobody else's."""
    folder = tmp_path / "a.1"
    respawn = "import os, time\nwhile os.fork() == 0: time.sleep(0.02)\ntime.sleep(1000)"
    environment = {**os.environ, "STAYER_DIR": str(folder)}
    stray = subprocess.Popen([sys.executable, "-c", respawn], env=environment)
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, "STAYER_DIR": str(folder) + "0"})
    mark = b"STAYER_DIR=" + os.fsencode(folder) + b"\0"

    def left() -> list[str]:
        return [entry for entry in os.listdir("/proc") if entry.isdigit() and _has(entry, mark)]

    until(lambda: len(left()) > 2)
    while not sweep_strays(folder):
        time.sleep(0.01)
    assert left() == []
    assert stray.wait() == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()


def _has(pid: str, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
