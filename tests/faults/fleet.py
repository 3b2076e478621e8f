"""Real workers in processes of their own, and tasks that stamp a clock, to be broken by tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from stayer.core.model import FINISHED, Task
from stayer.core.submit.checks import new_task
from stayer.store import Store
from stayer.stores import open_store
from tests.quick_popen import QuickPopen
from tests.reachable import stayer_for

TASK_USER = os.environ.get("STAYER_TEST_TASK_USER") if os.geteuid() == 0 else None
"""Whom tasks run as, if not as their worker: `STAYER_TEST_TASK_USER=nobody`, as root."""
PATIENCE = float(os.environ.get("STAYER_TEST_PATIENCE", "120"))
"""A cap for waits that only a defect reaches."""

STAMPER = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
attempt = os.environ["STAYER_ATTEMPT"]
stop = sys.argv[2]
while not os.path.exists(stop):
    moment = time.clock_gettime(time.CLOCK_BOOTTIME)
    os.write(file, f"{attempt} {moment:.6f}\\n".encode())
    time.sleep(0.005)
"""


@contextmanager
def folder_for_all() -> Iterator[Path]:
    """A folder in which any user may write: not below pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="stayer-faults-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a condition. Looks less often in the course of time: many tests wait for a lease to
    end, and each look costs what others could run with.
    """
    deadline = time.monotonic() + PATIENCE
    pause_s = 0.005
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain {what}"
        time.sleep(pause_s)
        pause_s = min(1.1 * pause_s, 0.05)


def is_stopped(pid: int) -> bool:
    """All of its threads."""
    states = (task.joinpath("stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir())
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)


class Fleet:
    """A store and the workers on it."""

    def __init__(
        self,
        folder: Path,
        url: str | None = None,
        task_user: str | None = TASK_USER,
        *,
        setup: bool = True,
    ) -> None:
        self.folder = folder
        self.task_user = task_user
        self.python = stayer_for(task_user)[0] if task_user else sys.executable
        """One that its tasks can run."""
        self.url = url or f"sqlite:///{folder}/stayer.db"
        self.store: Store = open_store(self.url)
        if setup:
            self.store.setup()
        self.workers: list[subprocess.Popen[bytes]] = []
        self._read_stamps: dict[str, tuple[int, dict[int, list[float]]]] = {}
        """By task, how far its stamps were read, and what they were."""

    def worker(
        self,
        name: str = "one",
        *options: str,
        lease: float = 2.0,
        slots: int | None = 4,
        take_over: bool = False,
        commands: bool = True,
    ) -> int:
        """Start a worker on the state directory of that name; its pid."""
        options += ("--allow-commands",) if commands else ()
        options += ("--take-over",) if take_over else ()
        options += ("--slots", str(slots)) if slots else ()
        if self.task_user and "--task-user" not in options:
            options += ("--task-user", self.task_user)
        with open(self.folder / f"{name}.log", "ab") as log:
            process: subprocess.Popen[bytes] = QuickPopen(
                [
                    self.python, "-m", "stayer", "worker", "--store", self.url,
                    "--state-dir", str(self.folder / name),
                    "--lease", f"{lease}s", "--node", name, *options,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=self._environment(),
                # Tasks begin where their worker did, and the checkout may be out of their reach.
                cwd=self.folder if self.task_user else None,
            )  # fmt: skip
        self.workers.append(process)
        return process.pid

    def _environment(self) -> dict[str, str]:
        """Where the user of the tasks finds Stayer too; a test may say where it is found first."""
        if self.task_user is None:
            return dict(os.environ)
        paths = [os.environ.get("PYTHONPATH"), stayer_for(self.task_user)[1].get("PYTHONPATH")]
        found = os.pathsep.join(dict.fromkeys(path for path in paths if path))
        return {**os.environ, "PYTHONPATH": found} if found else dict(os.environ)

    def signal(self, pid: int, number: int) -> None:
        if number == signal.SIGSTOP:
            self._stop(pid)
            return
        os.kill(pid, number)
        if number == signal.SIGKILL:
            self.end_of(pid)

    def _stop(self, pid: int) -> None:
        """Not in the midst of a write to SQLite, which would keep all others from it."""
        with ExitStack() as stack:
            if self.url.startswith("sqlite:"):
                lock = stack.enter_context(open(self.folder / "stayer.db-lock", "w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            os.kill(pid, signal.SIGSTOP)
            until(lambda: is_stopped(pid), f"for {pid} to stop")

    def end_of(self, pid: int) -> int:
        """Wait until a worker has ended; its exit code."""
        # The last one: in a long run the kernel gives numbers out again.
        process = next(each for each in reversed(self.workers) if each.pid == pid)
        return process.wait(PATIENCE)

    def submit(self, id: str, *command: str, **options: object) -> str:
        new = new_task(queue="default", id=id, command=command, **options)  # type: ignore[arg-type]
        return self.store.submit([new])[0].task.id

    def stamper(self, id: str) -> str:
        """A task that stamps the clock until `finish` is called."""
        stamps, stop = str(self.stamps(id)), str(self.folder / f"{id}.stop")
        return self.submit(id, self.python, "-c", STAMPER, stamps, stop)

    def finish(self, id: str) -> None:
        (self.folder / f"{id}.stop").touch()

    def stamps(self, id: str) -> Path:
        return self.folder / f"{id}.stamps"

    def read_stamps(self, id: str) -> dict[int, list[float]]:
        """Moments by attempt. Reads on where the last look ended."""
        offset, found = self._read_stamps.get(id, (0, {}))
        with suppress(FileNotFoundError), open(self.stamps(id), "rb") as file:
            file.seek(offset)
            # The last one may be half there: a write of another process is not one step.
            new, newline, _ = file.read().rpartition(b"\n")
            for line in new.splitlines():
                attempt, moment = line.split()
                found.setdefault(int(attempt), []).append(float(moment))
            self._read_stamps[id] = (offset + len(new + newline), found)
        return {attempt: list(moments) for attempt, moments in found.items()}

    def assert_no_overlap(self, id: str) -> None:
        """No attempt began before the last sign of life of the one before."""
        stamps = self.read_stamps(id)
        attempts = sorted(stamps)
        for earlier, later in pairwise(attempts):
            assert max(stamps[earlier]) < min(stamps[later]), f"{id}: {earlier} overlaps {later}"

    def get(self, id: str) -> Task:
        task = self.store.get([id])[0]
        assert task is not None
        return task

    def until_state(self, id: str, *states: str) -> Task:
        until(lambda: self.get(id).state in states, f"for {id} to be {states}, {self.get(id)}")
        return self.get(id)

    def until_ended(self, id: str) -> Task:
        return self.until_state(id, *FINISHED)

    def until_stamped(self, id: str, attempt: int = 1, more_than: int = 0) -> None:
        until(lambda: len(self.read_stamps(id).get(attempt, ())) > more_than, f"for stamps of {id}")

    def endings(self, id: str) -> list[str | None]:
        return [attempt.ending for attempt in self.store.attempts(id)]

    def keepers(self, name: str = "one") -> list[int]:
        """The processes of nursery and keepers of a state directory, nursery first."""
        mark = os.fsencode(self.folder / name)
        found = []
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if entry.isdigit():
                    words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                    if b"-I" in words and mark in words:
                        found.append(int(entry))
        return sorted(found)

    def strays(self) -> list[int]:
        """Whatever still carries this test's folder in its environment as a task."""
        mark = b"STAYER_DIR=" + os.fsencode(self.folder)
        found = []
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if entry.isdigit() and mark in Path(f"/proc/{entry}/environ").read_bytes():
                    found.append(int(entry))
        return found

    def close(self) -> None:
        """End everything that was started."""
        for process in self.workers:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for folder in self.folder.iterdir():
            if folder.is_dir():
                for pid in [*self.keepers(folder.name), *self.strays()]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        self.store.close()
