"""Workers, nurseries and keepers of different versions on one node."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import stayer
from stayer.service.control import tasks as control
from tests.faults.fleet import TASK_USER, Fleet, until


@pytest.fixture
def other_version(tmp_path: Path) -> Path:
    """Code whose keepers say less in some places than ours do, and more in others."""
    folder = tmp_path / "other"
    ours = Path(stayer.__file__).parent
    shutil.copytree(ours, folder / "stayer", ignore=shutil.ignore_patterns("__pycache__"))
    keeper = folder / "stayer" / "keeper" / "keeper.py"
    text = keeper.read_text()
    for said, otherwise in (
        ('"usage": self._accounts.usage,', '"usage": {"cpu": 0.5}, "mood": {"good": [1, 2]},'),
        ('"usage": self._accounts.final(),', '"mood": "sleepy",'),
        ('"cgroup": self._cgroup and self._cgroup.path,', ""),
    ):
        assert said in text
        text = text.replace(said, otherwise)
    keeper.write_text(text)
    return folder


@pytest.fixture
def flat_version(other_version: Path) -> Path:
    """Code that gives the task no part of its own of the run directory, as versions before did."""
    run = other_version / "stayer" / "worker" / "run_directory.py"
    text = run.read_text()
    for now, before in (
        ('_TASK = "task"', '_TASK = ""'),
        ("part.mkdir(mode=0o700)", "part.mkdir(mode=0o700, exist_ok=True)"),
    ):
        assert now in text
        text = text.replace(now, before)
    run.write_text(text)
    return other_version


@pytest.mark.skipif(TASK_USER is not None, reason="versions before had no --task-user")
def test_a_run_directory_without_a_part_for_the_task_is_adopted(
    fleet: Fleet, flat_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(fleet, flat_version, monkeypatch, lease=60)
    go = fleet.folder / "go"
    script = (
        f"echo early; touch {fleet.folder}/begun;"
        f" until [ -e {go} ]; do sleep 0.05; done; echo late;"
        ' echo 1/2 > "$STAYER_REPORT"; echo state > "$STAYER_CHECKPOINT"; echo 7 > "$STAYER_RESULT"'
    )
    fleet.submit("a", "sh", "-c", script)
    fleet.submit("b", "sh", "-c", "sleep 1000")
    until((fleet.folder / "begun").exists)
    fleet.until_state("b", "started")
    assert (fleet.folder / "one" / "run" / "a.1" / "input").exists()
    fleet.signal(worker, signal.SIGKILL)
    start(fleet, None, monkeypatch, lease=60)
    go.touch()
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.result) == ("complete", 1, 7)
    assert task.progress is not None
    assert task.progress.done == 1
    pieces = fleet.store.log("a", 1, 0, 1000)
    assert b"".join(piece.data for piece in pieces) == b"early\nlate\n"
    control.cancel(fleet.store, "b", grace=0)
    assert fleet.until_ended("b").state == "cancelled"
    until(lambda: not any((fleet.folder / "one" / "run").iterdir()))
    assert not fleet.strays()


def start(fleet: Fleet, code: Path | None, monkeypatch: pytest.MonkeyPatch, lease: float) -> int:
    """A worker of that code, or of ours."""
    with monkeypatch.context() as patch:
        if code is not None:
            patch.setenv("PYTHONPATH", str(code))
        return fleet.worker(lease=lease)


def versions(fleet: Fleet) -> int:
    return len(list((fleet.folder / "one").glob("nursery-*.fifo")))


@pytest.mark.parametrize("ours_first", [False, True])
def test_one_version_adopts_what_another_keeps(
    fleet: Fleet, other_version: Path, monkeypatch: pytest.MonkeyPatch, ours_first: bool
) -> None:
    first, second = (None, other_version) if ours_first else (other_version, None)
    worker = start(fleet, first, monkeypatch, lease=30)
    for id in ("done", "cancelled"):
        fleet.stamper(id)
        fleet.until_state(id, "started")
        fleet.until_stamped(id)
    fleet.signal(worker, signal.SIGKILL)

    start(fleet, second, monkeypatch, lease=30)
    fleet.stamper("new")
    fleet.until_stamped("new")
    assert versions(fleet) == 2
    for id in ("done", "new"):
        fleet.finish(id)
        task = fleet.until_ended(id)
        assert (task.state, task.attempt) == ("complete", 1)
    control.cancel(fleet.store, "cancelled", grace=0.2)
    assert fleet.until_ended("cancelled").state == "cancelled"
    assert all(list(fleet.read_stamps(id)) == [1] for id in ("done", "new", "cancelled"))


def test_a_keeper_of_another_version_is_fenced_and_goes_on(
    fleet: Fleet, other_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(fleet, other_version, monkeypatch, lease=3)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGKILL)
    running = fleet.folder / "one" / "run" / "a.1" / "running"
    until(lambda: b'"fenced"' in running.read_bytes(), "for the fence")
    seen = len(fleet.read_stamps("a")[1])
    start(fleet, None, monkeypatch, lease=3)
    fleet.until_stamped("a", more_than=seen)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
