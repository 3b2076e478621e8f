"""Whatever a task left in its folder goes, and never keeps its worker from anything else."""

from __future__ import annotations

import errno
import os
import pwd
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from stayer.worker import remove_later, remove_tree
from stayer.worker.remove_tree import remove
from stayer.worker.run_directory import Run
from stayer.worker.run_removal import discard, strip
from stayer.worker.state_directory import StateDirectory
from tests.faults.fleet import Fleet, until

LEVELS = 3_000
DIG = f"""
import os
for _ in range({LEVELS}):
    os.mkdir("d")
    os.chdir("d")
"""
DIG_ON = """
import os, sys
os.chdir(sys.argv[1])
print("digging", flush=True)
while True:
    os.mkdir("d")
    os.chdir("d")
"""


def dig(folder: Path, count: int = 1) -> None:
    """Make folders in it, each of them deeper than Python can call itself."""
    for number in range(count):
        top = folder / f"deep{number}"
        top.mkdir(parents=True)
        (top / "file").touch()
        subprocess.run([sys.executable, "-c", DIG], check=True, cwd=top)


def test_folders_as_deep_as_they_may_be(tmp_path: Path) -> None:
    dig(tmp_path / "x", 3)
    used = len(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 6, limits[1]))
    try:
        assert remove(tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not list(tmp_path.iterdir())


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "x"
    (kept / "a").mkdir(parents=True)
    (kept / "a" / "file").touch()
    (folder / "a" / "b").mkdir(parents=True)
    for where in (folder, folder / "a", folder / "a" / "b"):
        (where / "link").symlink_to(kept)
        (where / "up").symlink_to("..")
        os.mkfifo(where / "pipe")
    assert remove(folder)
    (tmp_path / "link").symlink_to(kept)
    assert remove(tmp_path / "link")
    assert remove(tmp_path / "nothing")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "a", "file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_folders_that_their_owner_has_closed() -> None:
    above = Path(tempfile.mkdtemp())
    folder = above / "x"
    (folder / "a" / "b" / "c").mkdir(parents=True)
    (folder / "a" / "b" / "file").touch()
    nobody = pwd.getpwnam("nobody")
    for path in (above, *folder.rglob("*"), folder):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    for path in (folder / "a" / "b", folder / "a", folder):
        path.chmod(0)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        os._exit(0 if remove(folder) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    above.rmdir()


def test_somebody_who_digs_on_does_not_keep_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove_tree, "_REMOVAL_TIMEOUT_S", 0.5)
    folder = tmp_path / "x"
    folder.mkdir()
    digging = subprocess.Popen(
        [sys.executable, "-c", DIG_ON, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with digging:
        assert digging.stdout is not None
        digging.stdout.readline()
        remove(folder)  # it comes back, whoever was faster
        digging.kill()
    monkeypatch.undo()
    assert remove(folder)


class Unlinked:
    """Counts what the thread of the test removes itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here = 0
        real, me = os.unlink, threading.get_ident()

        def unlink(path: str, *, dir_fd: int | None = None) -> None:
            self.here += threading.get_ident() == me
            real(path, dir_fd=dir_fd)

        monkeypatch.setattr(os, "unlink", unlink)


def fill(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / str(number)).touch()


def test_much_is_removed_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remove_later, "IN_PASSING", 100)
    unlinked = Unlinked(monkeypatch)
    run = tmp_path / "much.1"
    fill(run / "task", 500)
    discard(run)
    assert not run.exists()
    assert unlinked.here <= 101
    until(lambda: not list(tmp_path.iterdir()), "for the rest to go")

    # A few go at once
    fill(run / "task", 50)
    discard(run)
    assert not list(tmp_path.iterdir())


def test_much_beside_a_refused_result_is_removed_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove_later, "IN_PASSING", 100)
    unlinked = Unlinked(monkeypatch)
    run = tmp_path / "much.1"
    fill(run / "task", 300)
    fill(run / "task" / "deeper", 300)
    (run / "task" / "result.refused").write_text("much")
    strip(run)
    assert unlinked.here <= 102
    until(lambda: os.listdir(run / "task") == ["result.refused"], "for all but it to go")
    assert (run / "task" / "result.refused").read_text() == "much"


def test_its_name_is_free_before_it_is_removed(tmp_path: Path) -> None:
    fill(tmp_path / "run.1" / "task", 3)

    removal = Run(tmp_path / "run.1").put_away()

    [gone] = tmp_path.iterdir()
    assert gone.name.startswith(".gone.run.1")
    removal()
    assert not list(tmp_path.iterdir())
    Run(tmp_path / "none.1").put_away()()


def test_what_can_not_be_removed_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "unlink", forbidden)
    fill(tmp_path / "run.1", 3)
    discard(tmp_path / "run.1")
    assert len([each for each in caplog.records if "can't be removed" in each.message]) == 1
    assert not remove_later._REMOVER._known


def test_a_worker_starts_whatever_its_last_removal_left(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state", "here")
    for name in (".gone.a.1.5", ".new.b.1"):
        dig(tmp_path / "state" / "run" / name)
    (tmp_path / "state").chmod(0o700)
    state.open()
    until(lambda: not list((tmp_path / "state" / "run").iterdir()), "for them to go")
    state.close()


def deep_folders_harm_nobody(fleet: Fleet) -> None:
    """Neither at the end of their task, nor at the next start of its worker."""
    worker = fleet.worker(lease=60)
    runs = fleet.folder / "one" / "run"
    in_own = f"import os; os.chdir(os.environ['STAYER_DIR'])\n{DIG}"
    fleet.submit("deep", fleet.python, "-c", in_own)
    refused = "open(os.environ['STAYER_RESULT'], 'w').write('x' * 2_000_000)"
    fleet.submit("refused", fleet.python, "-c", f"import os\n{refused}\n{in_own}")
    fleet.submit("good", "true")
    assert fleet.until_ended("deep").state == "complete"
    assert fleet.until_ended("refused").state == "failed"
    assert fleet.until_ended("good").state == "complete"
    until(lambda: [path.name for path in runs.iterdir()] == ["refused.1"], "for the folders to go")
    part = runs / "refused.1" / "task"
    until(lambda: [path.name for path in part.iterdir()] == ["result.refused"], "for all but it")
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    fleet.worker(lease=60)
    fleet.submit("again", "true")
    assert fleet.until_ended("again").state == "complete"


def test_deep_folders_harm_nobody(fleet: Fleet) -> None:
    deep_folders_harm_nobody(fleet)
