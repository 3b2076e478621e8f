"""Plays the worker: writes leases and run directories, starts a nursery, reads what keepers say."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import stayer.keeper.nursery
from stayer.keeper.kernel import boot_id, moment

SOURCE = Path(stayer.keeper.nursery.__file__).parent
NASTY = Path(__file__).parent / "nasty.py"
PYTHON = str(Path(sys.executable).resolve())
CAP = 60.0
_NAME = os.environ.get("STAYER_TEST_TASK_USER") if os.geteuid() == 0 else None
TASK_USER = pwd.getpwnam(_NAME).pw_uid if _NAME else None
"""Whom tasks run as, if not as their keeper."""
PATH = os.environ["PATH"] if TASK_USER is None else os.defpath

Found = TypeVar("Found")


def wait_for(condition: Callable[[], Found | None], what: str = "it") -> Found:
    """Its first true answer."""
    end = time.monotonic() + CAP
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"waited {CAP} s for {what}")


@functools.cache
def for_others() -> Path:
    """A folder with copies of the keeper's code and of nasty.py that every user can read: the
    checkout may be where only its owner can enter.
    """
    folder = Path(tempfile.mkdtemp(prefix="stayer-keeper-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(SOURCE, folder / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(NASTY, folder)
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    return folder


def state_of(pid: int) -> str:
    """Of /proc/PID/stat; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def rests(pid: int) -> str:
    """How often it has gone to sleep by itself; empty if there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return next(line for line in lines if line.startswith("voluntary"))


class Attempt:
    """One run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "task"
        """The part of it that the task has."""
        self.life: int | None = None
        self.births = b""

    def read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None

    def running(self) -> Any:
        return wait_for(lambda: self.read("running"), "the process")

    def stopped(self) -> list[str]:
        return list(self.running()["stopped"])

    def exit(self) -> Any:
        return wait_for(lambda: self.read("exit"), "its exit")

    def log(self) -> str:
        return (self.files / "log").read_text()

    def go(self, **orders: Any) -> None:
        """Give orders, as the worker does."""
        (self.path / "go.tmp").write_text(json.dumps(orders))
        os.rename(self.path / "go.tmp", self.path / "go")
        self.look()

    def look(self) -> None:
        """Tell the keeper that there is something to see."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.running()["keeper"], signal.SIGUSR1)

    def be_seen(self) -> None:
        """Let the keeper look at what is there, twice: the second look began after this call."""
        keeper = self.running()["keeper"]
        for _ in range(2):
            before = rests(keeper)
            self.look()
            wait_for(lambda before=before: rests(keeper) != before, "a look")  # type: ignore[misc]

    def make_it_look(self) -> None:
        """Be sure that the keeper has seen it: it says what it does about a pause afterwards."""
        self.be_seen()  # else the next order could hide it
        self.go(paused=True)
        wait_for(lambda: "paused" in self.stopped(), "the pause")
        self.go(paused=False)
        wait_for(lambda: "paused" not in self.stopped(), "the end of the pause")

    def cancel(self, grace: float = 30.0) -> Any:
        self.go(stop={"why": "cancel", "grace": grace})
        return self.exit()

    def locked(self) -> bool:
        with (self.path / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def hear_births(self, number: int) -> None:
        """Wait until so many processes of a nasty tree live."""

        def heard() -> bool:
            assert self.life is not None
            with contextlib.suppress(BlockingIOError):
                self.births += os.read(self.life, 65536)
            assert "not_started" not in (self.read("exit") or {}), self.read("exit")
            return len(self.births) >= number

        wait_for(heard, f"{number} births")

    def nothing_is_left(self) -> bool:
        """No process holds the pipe of life open."""
        assert self.life is not None
        try:
            while os.read(self.life, 65536):
                pass
            return True
        except BlockingIOError:
            return False

    def last_stamp(self) -> float:
        """The last instruction of any process of a nasty tree."""
        texts = (path.read_text() for path in (self.files / "stamps").iterdir())
        return max(float(text) for text in texts if text)


class Node:
    """A state directory with its lease and nursery."""

    def __init__(
        self,
        state: Path,
        source: Path = SOURCE,
        user: int | None = None,
        interpreter: str = PYTHON,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.state = state
        self.interpreter = interpreter
        is_for_others = user is not None or TASK_USER is not None
        self.nasty_program = for_others() / NASTY.name if is_for_others else NASTY
        is_ours = source == SOURCE
        self.source = for_others() / SOURCE.name if is_ours and user is not None else source
        self.user = user
        self.prefix = prefix
        self.attempts: list[Attempt] = []
        self.until = 0.0
        self.runs = state / "run"
        self.runs.mkdir(exist_ok=True)
        if user is not None:
            os.chown(self.runs, user, user)
        self.nursery = self.start_nursery()

    def version(self) -> str:
        if self.source in (SOURCE, for_others() / SOURCE.name):
            return stayer.keeper.nursery.version()
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            f"from {self.source.name}.nursery import version; print(version())"
        )
        arguments = [PYTHON, "-I", "-S", "-c", code, str(self.source.parent)]
        return subprocess.check_output(arguments, text=True).strip()

    def start_nursery(self) -> subprocess.Popen[bytes]:
        program = self.source / "__main__.py"
        arguments = [self.interpreter, "-I", "-S", str(program), str(self.state)]
        if self.user is not None:
            os.chown(self.state, self.user, self.user)
            who = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
            # As in contrib/systemd/: nor can it get any rights.
            never = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
            arguments = ["setpriv", *who, *never, *arguments]
        return subprocess.Popen([*self.prefix, *arguments], start_new_session=True)

    def tell(self, line: str) -> None:
        """Write to the nursery's pipe once it reads there."""
        path = self.state / f"nursery-{self.version()}.fifo"

        def opened() -> int | None:
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                code = self.nursery.poll()
                assert not code or code < 0, f"the nursery could not start: exit code {code}"
                return None

        descriptor = wait_for(opened, "a nursery")
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def renew(self, seconds: float = 3600.0, length: float = 3600.0, boot: str = "") -> float:
        """Write the lease as good for so long; until when."""
        self.until = moment() + seconds
        text = f"{boot or boot_id()} {self.until:020.6f} {length:012.3f}\n"
        descriptor = os.open(self.state / "lease", os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, text.encode(), 0)
        os.close(descriptor)
        return self.until

    def void(self) -> None:
        (self.state / "lease").write_text("void\n")

    def prepare(self, argv: list[str], **spec: Any) -> Attempt:
        """A run directory that nobody was told of."""
        attempt = Attempt(self.runs / f"run-{len(self.attempts)}")
        attempt.path.mkdir()
        attempt.files.mkdir(mode=0o700)
        content = {
            "argv": argv,
            "env": {"PATH": PATH, "STAYER_DIR": str(attempt.files)},
            "cwd": str(attempt.files),
            "lease": str(self.state / "lease"),
            **spec,
        }
        if TASK_USER is not None and self.user is None:
            content["user"] = {"uid": TASK_USER, "gid": TASK_USER, "groups": [], "umask": 0o022}
        (attempt.path / "task.json").write_text(json.dumps({"keeper": content}))
        (attempt.files / "input").write_text("the input")
        if self.user is not None:
            for each in (attempt.path, *attempt.path.iterdir()):
                os.chown(each, self.user, self.user)
        self.give(attempt.files, attempt.files / "input")
        self.attempts.append(attempt)
        return attempt

    def give(self, *paths: Path) -> None:
        """Make them the task's."""
        owner = TASK_USER if self.user is None else self.user
        if owner is not None:
            for path in paths:
                os.chown(path, owner, owner)

    def start(self, *argv: str, **spec: Any) -> Attempt:
        attempt = self.prepare(list(argv), **spec)
        self.tell(f"start {attempt.path}")
        return attempt

    def shell(self, script: str, **spec: Any) -> Attempt:
        return self.start("sh", "-c", script, **spec)

    def python(self, script: str, **spec: Any) -> Attempt:
        return self.start(self.interpreter, "-I", "-S", "-c", script, **spec)

    def nasty(self, kind: str, births: int = 2, **spec: Any) -> Attempt:
        """One of the trees of `nasty.py`, once so many of its processes live."""
        attempt = self.prepare([], **spec)
        content = attempt.read("task.json")
        words = [self.interpreter, "-I", "-S", str(self.nasty_program), kind, str(attempt.files)]
        content["keeper"]["argv"] = words
        (attempt.path / "task.json").write_text(json.dumps(content))
        (attempt.files / "stamps").mkdir()
        os.mkfifo(attempt.files / "life")
        self.give(attempt.files / "stamps", attempt.files / "life")
        attempt.life = os.open(attempt.files / "life", os.O_RDONLY | os.O_NONBLOCK)
        self.tell(f"start {attempt.path}")
        attempt.hear_births(births)
        attempt.running()
        return attempt

    def close(self) -> None:
        """End everything, whatever the test did to it."""
        self.void()
        for attempt in self.attempts:
            while attempt.path.exists() and attempt.locked():
                keeper = (attempt.read("running") or {}).get("keeper")
                if keeper is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(keeper, signal.SIGCONT)
                        os.kill(keeper, signal.SIGUSR1)
                time.sleep(0.01)
            if attempt.life is not None:
                wait_for(attempt.nothing_is_left, "the end of the tree")
                os.close(attempt.life)
        self.nursery.kill()
        self.nursery.wait()
