"""A state directory that others own, or may write to, is refused; all in it is the worker's own."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from stayer.core.errors import Refused
from stayer.keeper.nursery import version
from stayer.worker.state_directory import StateDirectory
from tests.faults.fleet import Fleet, until

NOBODY = 65534


@pytest.mark.parametrize("name", ["", "run", "lock", "identity"])
def test_what_others_may_write_to_is_refused(tmp_path: Path, name: str) -> None:
    state = StateDirectory(tmp_path / "state", "here")
    state.open()
    state.close()
    path = tmp_path / "state" / name
    before = path.stat().st_mode
    path.chmod(0o777)
    with pytest.raises(Refused, match=f"chmod go-w {path}"):
        state.open()
    path.chmod(before)
    state.open()
    state.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "run", "lock", "identity"])
def test_what_belongs_to_others_is_refused(tmp_path: Path, name: str) -> None:
    state = StateDirectory(tmp_path / "state", "here")
    state.open()
    state.close()
    os.chown(tmp_path / "state" / name, NOBODY, NOBODY)
    with pytest.raises(Refused, match=r"belongs to another user \(nobody\)"):
        state.open()


@pytest.mark.parametrize("name", ["run", "identity", "lock"])
def test_a_link_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="is a link"):
        StateDirectory(tmp_path / "state", "here").open()


def test_no_file_of_it_is_for_others(fleet: Fleet) -> None:
    old = os.umask(0)
    try:
        fleet.worker("one", lease=60)
    finally:
        os.umask(old)
    fleet.submit("a", "true")
    assert fleet.until_ended("a").state == "complete"
    fleet.submit("b", "sleep", "1000")
    fleet.until_state("b", "started")
    state = fleet.folder / "one"
    theirs = state / "run" / "b.1" / "task"
    for path in (state, *state.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not fleet.task_user or path.is_relative_to(theirs):
            assert not mode & 0o077, path
        else:
            assert mode in (0o600, 0o711), path


def test_the_nursery_starts_nothing_that_lies_elsewhere(fleet: Fleet) -> None:
    """Not even if somebody who may write to its pipe asks for it."""
    fleet.worker("one", lease=60)
    fleet.submit("a", "true")
    fleet.until_ended("a")
    state = fleet.folder / "one"
    [lease] = state.glob("lease-*")
    pipe = state / f"nursery-{version()}.fifo"
    out = fleet.folder / "out"
    evil = fleet.folder / "evil.1"
    (state / "run" / "link.1").symlink_to(evil)
    (state / "run" / "open.1").mkdir()
    (state / "run" / "open.1").chmod(0o777)
    evil.mkdir()
    keeper = {
        "argv": ["sh", "-c", f"id > {out}"],
        "env": {"PATH": os.environ["PATH"]},
        "cwd": "/",
        "lease": str(lease),
    }
    for folder in (evil, state / "run" / "open.1"):
        (folder / "task.json").write_text(json.dumps({"keeper": keeper}))
    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    for path in (evil, state / "run" / "link.1", state / "run" / "open.1", state / "run" / ".."):
        os.write(descriptor, f"start {path}\n".encode())
    os.close(descriptor)
    said = state / "nursery.log"
    until(lambda: said.read_text().count("not started: ") == 4, "for all to be refused")
    assert not out.exists()
    fleet.submit("b", "true")
    assert fleet.until_ended("b").state == "complete"


def test_a_pipe_of_somebody_elses_is_replaced(fleet: Fleet) -> None:
    state = fleet.folder / "one"
    state.mkdir(mode=0o700)
    pipe = state / f"nursery-{version()}.fifo"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    fleet.worker("one", lease=60)
    fleet.submit("a", "true")
    assert fleet.until_ended("a").state == "complete"
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o600
