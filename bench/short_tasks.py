"""Short functions in threads, beside huey on SQLite; and how soon one begins."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import say
from bench.processes import pace, process

TASKS = {"stayer": 40_000, "huey": 2_000}
"""As many as take a second or two."""
THREADS = 8
ROUNDS = 5


def threads() -> None:
    """The aims: 20 × huey's no-op tasks a second, a pickup under 2 ms."""
    print(f"Short functions on SQLite, results and history stored, {THREADS} threads")
    if importlib.util.find_spec("huey") is None:
        say("no-op tasks a second, against huey", "huey is not installed")
    else:
        _against_huey()
    found = sorted(_pickups(200))
    p50, p99 = statistics.median(found), found[int(len(found) * 0.99)]
    say("from submit to the first line of a thread: p50 / p99",
        f"{1000 * p50:.2f} / {1000 * p99:.2f} ms", "aim: p50 < 2 ms", p50 < 0.002)  # fmt: skip


def _against_huey() -> None:
    """Each is given a backlog first, then its worker is started. Huey has the better of two."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_stayer(TASKS["stayer"]))
        theirs.append(max(_huey(TASKS["huey"], workers) for workers in (1, THREADS)))
    ratio = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
    rates = f"{statistics.median(ours):,.0f}/s; huey {statistics.median(theirs):,.0f}/s"
    say(f"no-op tasks ({rates})", f"{ratio:.1f} × huey", "aim ≥ 20", ratio >= 20)


def _stayer(tasks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stayer.db")
        os.environ["STAYER_STORE"] = f"sqlite:///{path}"
        from bench.jobs import app, nothing

        app._client = None  # another store each time
        nothing.submit_many({"number": number} for number in range(tasks))
        with process(_worker(folder)):
            return pace(lambda: _one(path, "SELECT complete FROM stayer_queues"), tasks)


def _huey(tasks: int, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "huey.db"))
        # Made anew each time: it opens its database when it is imported.
        os.environ["BENCH_HUEY"] = path
        sys.modules.pop("bench.rivals.for_huey", None)
        from bench.rivals.for_huey import huey, nothing

        for number in range(tasks):
            nothing(number)
        huey.storage.close()
        consumer = str(Path(sys.executable).parent / "huey_consumer")
        command = [sys.executable, consumer, "bench.rivals.for_huey.huey", "-w", str(workers)]
        with process([*command, "-k", "thread"], BENCH_HUEY=path):
            return pace(lambda: _one(Path(path), "SELECT count(*) FROM kv"), tasks)


def _pickups(count: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stayer.db")
        os.environ["STAYER_STORE"] = f"sqlite:///{path}"
        from bench.jobs import app, first_line

        app._client = None
        with process(_worker(folder)):
            first_line.submit().wait()
            found = []
            for _ in range(count):
                time.sleep(0.02)  # let it fall asleep
                begin = time.monotonic()
                found.append(first_line.submit().wait() - begin)
            return found


def _worker(folder: str) -> list[str]:
    return [
        sys.executable, "-m", "stayer", "worker", "--app", "bench.jobs",
        "--threads", str(THREADS), "--state-dir", f"{folder}/state",
    ]  # fmt: skip


def _one(path: Path, statement: str) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute(statement).fetchone()[0])
    finally:
        db.close()
