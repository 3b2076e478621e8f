"""Workers with threads, an app for them, and a look at their processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stayer.core.model import Task
from stayer.core.submit.checks import new_task
from tests.faults.fleet import Fleet
from tests.quick_popen import QuickPopen

APP = '''
import asyncio, ctypes, os, signal, sys, threading, time
import stayer
from stayer import Context

app = stayer.App()


def stamp(path, attempt):
    with open(path, "ab", 0) as file:
        file.write(f"{attempt} {time.clock_gettime(time.CLOCK_BOOTTIME):.6f}\\n".encode())


@app.task(name="double")
def double(n: int) -> int:
    return 2 * n


@app.task(name="double_async")
async def double_async(n: int) -> int:
    await asyncio.sleep(0.01)
    return 2 * n


@app.task(name="fail")
def fail() -> None:
    raise ValueError("out of cheese")


@app.task(name="leave")
def leave(code: int) -> None:
    sys.exit(code)


@app.task(name="large")
def large(size: int) -> str:
    return "x" * size


@app.task(name="odd")
def odd() -> str:
    return "\\ud800"


@app.task(name="meet")
async def meet(path: str, number: int) -> int:
    """Ends when so many are at it at the same time."""
    stamp(path, 1)
    while len(open(path).read().splitlines()) < number:
        await asyncio.sleep(0.005)
    return number


@app.task(name="meet_in_threads")
def meet_in_threads(path: str, number: int) -> int:
    stamp(path, 1)
    while len(open(path).read().splitlines()) < number:
        time.sleep(0.005)
    return threading.active_count()


@app.task(name="talk")
def talk(task: Context) -> str:
    task.log.info("a line of %s", task.id)
    task.progress(1, 4, "begun")
    assert stayer.current_task() is task
    return task.folder.name


@app.task(name="steps")
def steps(task: Context, path: str) -> list:
    """Fails at its first attempt, after a step and a checkpoint."""
    first = task.step("first", lambda: os.getpid())
    stamp(path, task.attempt)
    if task.attempt == 1:
        task.checkpoint({"at": 7})
        raise RuntimeError("not yet")
    return [first, task.restore()]


@app.task(name="stamper")
def stamper(task: Context, path: str, stop: str) -> str:
    """Goes on though it is asked to stop, but says that it was."""
    while not os.path.exists(stop):
        stamp(path, task.attempt)
        if task.why is not None:
            open(path + ".asked", "a").close()
        time.sleep(0.005)
    return "stamped"


@app.task(name="patient")
def patient(task: Context, path: str) -> str:
    stamp(path, task.attempt)
    while task.sleep(1):
        pass
    return "partial"


@app.task(name="patient_async")
async def patient_async(task: Context, path: str) -> str:
    stamp(path, task.attempt)
    try:
        await asyncio.sleep(600)
    finally:
        stamp(path, task.attempt)
    return "never"


@app.task(name="hold_the_gil")
def hold_the_gil(path: str, seconds: int) -> int:
    stamp(path, 1)
    ctypes.PyDLL(None).sleep(seconds)  # a PyDLL keeps the GIL while it is in C
    return seconds


@app.task(name="die")
def die(task: Context, path: str) -> None:
    stamp(path, task.attempt)
    time.sleep(0.1)
    ctypes.string_at(0)  # reads where nothing is


@app.task(name="nap")
def nap(task: Context, path: str) -> None:
    stamp(path, task.attempt)
    time.sleep(0.5)
    stamp(path, task.attempt)


@app.task(name="die_once")
def die_once(task: Context, path: str) -> int:
    stamp(path, task.attempt)
    if task.attempt == 1:
        os._exit(3)
    return task.attempt
'''


class PoolFleet(Fleet):
    """Workers with threads."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        super().__init__(folder, url)
        (folder / "jobs.py").write_text(APP)

    def pool_worker(
        self,
        name: str = "one",
        *options: str,
        threads: int = 4,
        lease: float = 2.0,
        grace: float = 30.0,
    ) -> int:
        """Start a worker on the state directory of that name; its pid."""
        with open(self.log_of(name), "ab") as log:
            process: subprocess.Popen[bytes] = QuickPopen(
                [
                    sys.executable, "-m", "stayer", "worker", "--store", self.url, "--app", "jobs",
                    "--threads", str(threads), "--state-dir", str(self.folder / name),
                    "--lease", f"{lease}s", "--grace", f"{grace}s", "--node", name, *options,
                ],
                cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=self._environment(),
            )  # fmt: skip
        self.workers.append(process)
        return process.pid

    def log_of(self, name: str = "one") -> Path:
        return self.folder / f"{name}.log"

    def call(self, id: str, name: str, **parameters: Any) -> str:
        """Submit a call of a function of the app."""
        options = parameters.pop("options", {})
        policy = parameters.pop("policy", None)
        new = new_task(queue="default", id=id, name=name, parameters=parameters, **options)
        if policy is not None:
            new = replace(new, policy=policy)
        return self.store.submit([new])[0].task.id

    def call_stamper(self, id: str) -> str:
        return self.call(
            id, "stamper", path=str(self.stamps(id)), stop=str(self.folder / f"{id}.stop")
        )

    def was_asked_to_stop(self, id: str) -> bool:
        """A stamper: so the pool has heard of it, too."""
        return Path(f"{self.stamps(id)}.asked").exists()

    def has_completed(self, number: int) -> bool:
        [queue] = self.store.queues(["default"])
        return queue.counts.get("complete", 0) >= number

    def until_all_ended(self, ids: list[str]) -> list[Task]:
        return [self.until_ended(id) for id in ids]

    def pool_of(self, worker: int) -> int | None:
        """The process with the threads, which is the child of the guard of the worker."""
        return next((pid for guard in children(worker) for pid in children(guard)), None)


def children(pid: int) -> list[int]:
    with suppress(OSError):
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(word) for word in listed]
    return []


def is_alive(pid: int) -> bool:
    """And not a zombie either."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
