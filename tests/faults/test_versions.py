"""Workers, nurseries and keepers of different versions on one node."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import stayer
from stayer import control
from tests.faults.fleet import Fleet, until


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
