"""What worker and server know is not to be read in /proc, by a task of the same user say."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stayer.core.submit.checks import new_task
from tests.faults.fleet import Fleet, until
from tests.reachable import stayer_for

USER = "nobody"
TOKEN = "a-token-nobody-may-see"
SEARCH = """
for p in /proc/[0-9]*; do
    (tr '\\0' '\\n' < $p/environ) 2>/dev/null | grep -E '^STAYER_(STORE|TOKEN)=.*MARK' && echo $p
done
"""


def _environment(fleet: Fleet) -> dict[str, str]:
    return {**os.environ, "STAYER_STORE": fleet.url, "STAYER_TOKEN": TOKEN}


def _wait(fleet: Fleet, process: subprocess.Popen[bytes]) -> None:
    fleet.workers.append(process)
    until(fleet.store.workers, "for the worker")


def _block(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.skipif(
    os.geteuid() != 0, reason="of its own user's a process that is shielded shows nothing"
)
def test_the_environment_of_a_worker_says_nothing_of_the_store(fleet: Fleet) -> None:
    arguments = [sys.executable, "-m", "stayer", "worker", "--allow-commands"]
    state = ["--state-dir", str(fleet.folder / "one")]
    worker = subprocess.Popen([*arguments, *state], env={**_environment(fleet), "LAST": "word"})
    _wait(fleet, worker)
    found = _block(worker.pid)
    assert b"LAST=word" in found
    assert TOKEN.encode() not in found
    assert fleet.url.encode() not in found
    fleet.submit("a", "sh", "-c", 'env > "$STAYER_RESULT"')
    task = fleet.until_ended("a")
    assert task.state == "complete"
    assert TOKEN not in str(task.result)
    for pid in fleet.keepers("one"):
        assert TOKEN.encode() not in _block(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at processes that may hide")
def test_the_environment_of_threads_says_nothing_of_the_store(fleet: Fleet) -> None:
    (fleet.folder / "made.py").write_text(
        "import os, stayer\napp = stayer.App()\n"
        "@app.task\ndef look() -> list[str]:\n"
        "    return [str(os.getpid()), str(dict(os.environ))]\n"
    )
    worker = subprocess.Popen(
        [
            sys.executable, "-m", "stayer", "worker", "--threads", "2", "--app", "made",
            "--state-dir", str(fleet.folder / "one"),
        ],
        env={**_environment(fleet), "LAST": "word"}, cwd=fleet.folder,
    )  # fmt: skip
    _wait(fleet, worker)
    fleet.store.submit([new_task(queue="default", id="a", name="made.look")])
    task = fleet.until_ended("a")
    assert isinstance(task.result, list)
    pid, seen = task.result
    assert "'LAST': 'word'" in str(seen)
    assert TOKEN not in str(seen)
    assert TOKEN.encode() not in _block(int(str(pid)))
    assert fleet.url.encode() not in _block(int(str(pid)))


@pytest.mark.skipif(
    os.geteuid() != 0, reason="of its own user's a process that is shielded shows nothing"
)
def test_the_environment_of_a_server_says_nothing_of_the_store(fleet: Fleet) -> None:
    said = fleet.folder / "said"
    with said.open("wb") as output:
        server = subprocess.Popen(
            [
                sys.executable, "-m", "stayer", "serve", "--port", "0",
                "--access-file", str(fleet.folder / "access.json"),
            ],
            env=_environment(fleet), stdout=output, stderr=output,
        )  # fmt: skip
    fleet.workers.append(server)
    until(lambda: b"http://" in said.read_bytes(), "for the server")
    assert TOKEN.encode() not in _block(server.pid)
    assert fleet.url.encode() not in _block(server.pid)


@pytest.fixture
def theirs() -> Iterator[Fleet]:
    """A fleet in a folder of the user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    import shutil
    import tempfile

    known = pwd.getpwnam(USER)
    folder = Path(tempfile.mkdtemp(prefix="stayer-shield-"))
    fleet = Fleet(folder, task_user=None)
    for path in (folder, *folder.iterdir()):
        os.chown(path, known.pw_uid, known.pw_gid)
    yield fleet
    fleet.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize("options", [(), ("--isolate", "pidns")])
def test_a_task_of_the_workers_user_finds_no_credentials(
    theirs: Fleet, options: tuple[str, ...]
) -> None:
    """And all works for a worker, a nursery and keepers whose files in /proc are root's."""
    python, environment = stayer_for(USER)
    known = pwd.getpwnam(USER)
    mark = theirs.folder.name
    worker = subprocess.Popen(
        [
            python, "-m", "stayer", "worker", "--allow-commands",
            "--state-dir", str(theirs.folder / "one"), *options,
        ],
        env={**_environment(theirs), **environment, "HOME": str(theirs.folder),
             "STAYER_STORE": theirs.url, "STAYER_TOKEN": mark},
        cwd=theirs.folder, user=known.pw_uid, group=known.pw_gid, extra_groups=[],
    )  # fmt: skip
    _wait(theirs, worker)
    # Other tests run beside this one: only what is this one's counts.
    theirs.submit(
        "a", "sh", "-c", SEARCH.replace("MARK", mark) + "cat /proc/self/oom_score_adj; sleep 0.3"
    )
    task = theirs.until_ended("a")
    log = b"".join(piece.data for piece in theirs.store.log("a", 1, 0, 100_000))
    if b"pidns' is refused" in repr(task).encode() or b"can't be mapped" in repr(task).encode():
        pytest.skip("this user may make no namespaces here")
    assert task.state == "complete", task
    assert mark.encode() not in log
    assert theirs.url.encode() not in log
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert log.split() == [b"%d" % min(1000, own + 500)]
    assert task.usage is not None
    assert task.usage.written > 0
    owned_by_root = [worker.pid, *theirs.keepers("one")]
    for pid in owned_by_root:
        with suppress(FileNotFoundError):
            assert Path(f"/proc/{pid}/environ").stat().st_uid == 0, pid


def test_a_user_drains_a_worker_that_hides_from_the_user(theirs: Fleet) -> None:
    """What it has open only root may see."""
    python, environment = stayer_for(USER)
    known = pwd.getpwnam(USER)
    begun: dict[str, Any] = {
        "env": {**_environment(theirs), **environment, "HOME": str(theirs.folder)},
        "cwd": theirs.folder, "user": known.pw_uid, "group": known.pw_gid, "extra_groups": [],
    }  # fmt: skip
    state = ["--state-dir", str(theirs.folder / "one")]
    worker = subprocess.Popen(
        [python, "-m", "stayer", "worker", "--allow-commands", *state], **begun
    )
    _wait(theirs, worker)
    subprocess.run([python, "-m", "stayer", "drain", *state], check=True, **begun)
    assert worker.wait(60) == 5
