"""A state directory of 144e6ff, with its run directories, is taken over by a worker of today."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from tests.faults.fleet import TASK_USER, Fleet, folder_for_all, until
from tests.versions import old

pytestmark = pytest.mark.skipif(TASK_USER is not None, reason="144e6ff had no --task-user")


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_for_all() as folder:
        old.restore_sqlite(folder / "stayer.db", "state.db.gz")
        yield folder


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    fleet = Fleet(folder)
    yield fleet
    fleet.close()


def test_what_ended_while_no_worker_lived_is_told(fleet: Fleet) -> None:
    old.unpack_state(fleet.folder / "one", in_place=True)
    fleet.worker("one", lease=60)
    task = fleet.until_ended("ended")
    assert (task.state, task.attempt, task.result) == ("complete", 1, 7)
    assert task.progress is not None
    assert (task.progress.done, task.progress.message) == (1, "half")
    pieces = fleet.store.log("ended", 1, 0, 1000)
    assert b"".join(piece.data for piece in pieces) == b"early\nlate\n"

    task = fleet.until_ended("failed")
    assert (task.state, task.attempt, task.ending) == ("failed", 1, "error")
    assert task.error is not None
    assert task.error.exit_code == 1
    assert "its own words" in (task.error.traceback or "")


def test_what_lost_its_keeper_is_run_again(fleet: Fleet) -> None:
    old.unpack_state(fleet.folder / "one", in_place=True)
    fleet.worker("one", lease=60)
    until(lambda: fleet.endings("running")[:1] == ["lost"], "for the loss")
    task = fleet.until_state("running", "started")
    assert task.attempt == 2
    control.cancel(fleet.store, "running", grace=0)
    assert fleet.until_ended("running").state == "cancelled"
    until(lambda: not any((fleet.folder / "one" / "run").iterdir()), "for the run directories")
    assert not fleet.strays()


def test_after_a_reboot_what_had_ended_is_told_and_the_rest_runs_again(fleet: Fleet) -> None:
    old.unpack_state(fleet.folder / "one", in_place=False)
    [before] = fleet.store.workers()
    fleet.worker("one", lease=60)
    task = fleet.until_ended("ended")
    assert (task.state, task.attempt, task.result) == ("complete", 1, 7)
    worker_control.drop_worker(fleet.store, before.id)  # else it is declared lost in time
    assert fleet.endings("running")[:1] == ["lost"]
    assert fleet.until_state("running", "started").attempt == 2
