"""Whatever a task left in its folder goes, and never keeps its worker from anything else."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stayer.worker import remove_tree
from stayer.worker.remove_tree import remove
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
    monkeypatch.setattr(remove_tree, "_PATIENCE", 0.5)
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


def test_a_worker_starts_whatever_its_last_removal_left(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state", "here")
    for name in (".gone.a.1.5", ".new.b.1"):
        dig(tmp_path / "state" / "run" / name)
    (tmp_path / "state").chmod(0o700)
    state.open()
    assert not list((tmp_path / "state" / "run").iterdir())
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
