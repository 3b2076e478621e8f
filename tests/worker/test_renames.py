"""Being woken by what a keeper writes, instead of looking for it again and again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stayer.core.model import Task
from stayer.worker import renames, wakeup
from stayer.worker.attempt import HeldAttempt
from stayer.worker.attempts import HeldAttempts
from stayer.worker.renames import Renames
from stayer.worker.run_directory import Run
from stayer.worker.state_directory import StateDirectory
from stayer.worker.wakeup import Bell

PATIENCE = 60.0


def put(folder: Path, name: str) -> None:
    (folder / f"{name}.tmp").touch()
    (folder / f"{name}.tmp").rename(folder / name)


def test_only_the_names_that_are_awaited_are_heard(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    watched = Renames()
    assert watched.watch(one, ("running", "exit"))
    assert watched.watch(other, ("exit",))

    for folder, name, expected in (
        (one, "running", True), (other, "running", False), (other, "exit", True)
    ):  # fmt: skip
        put(folder, name)
        assert watched.read_news() is expected
    assert watched.watch(one, ("exit",))
    put(one, "running")
    assert not watched.read_news()
    put(one, "exit")
    assert watched.read_news()


def test_folders_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    watched = Renames()
    watched.watch(tmp_path / "run", ("exit",))
    (tmp_path / "run").rmdir()

    assert not watched.read_news()

    assert not watched._awaited
    assert not watched.watch(tmp_path / "run", ("exit",))


def test_more_than_the_kernel_could_keep_may_have_been_anything(tmp_path: Path) -> None:
    watched = Renames()
    watched.watch(tmp_path, ("exit",))
    overflow = renames._HEADER.pack(-1, renames._OVERFLOW, 0, 0)

    def read(descriptor: int, length: int) -> bytes:
        return overflow

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", read)
        assert watched.read_news()


def test_a_sleeping_worker_wakes_when_its_keeper_says_how_it_ended(tmp_path: Path) -> None:
    bell = Bell()
    assert bell.ring_when_written(tmp_path, ("exit",))
    sleeper = threading.Thread(target=bell.sleep, args=[PATIENCE])
    sleeper.start()
    put(tmp_path, "running")
    put(tmp_path, "exit")
    sleeper.join(PATIENCE / 2)
    assert not sleeper.is_alive()


def test_where_the_kernel_tells_nothing_the_worker_looks_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more() -> None:
        raise OSError(24, "Too many open files")

    (tmp_path / "a.1").mkdir()
    state = StateDirectory(tmp_path, "here")
    for expected in (True, False):
        held = HeldAttempt(Task(id="a", queue="q", attempt=1), Run(tmp_path / "a.1"), fresh=True)
        HeldAttempts(state, Bell()).await_start(held)
        assert held.is_heard is expected
        monkeypatch.setattr(wakeup, "Renames", no_more)
