"""Functions in processes of their own: started afresh, forked by a process that has imported the
app (`--preload`), and forked by rq, in one run.
"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.command_tasks import redis_server, rq_pace
from bench.measure import say
from bench.processes import pace, process, until

TASKS, FRESH_TASKS = 200, 30
"""As many as take some seconds."""
ROUNDS = 3
PICKUPS = 50


def preload() -> None:
    """The aims: 2 × rq's jobs a second, a pickup under 15 ms."""
    print("Functions on SQLite, each in a process with a keeper of its own")
    server = redis_server()
    if server is None or importlib.util.find_spec("rq") is None:
        say("preloaded functions a second, against rq's fork", "rq or redis is missing")
    else:
        for at_once in (1, 4):
            _against_rq(server, at_once)
    for what, options, aim in (("preloaded", ("--preload",), 0.015), ("fresh", (), None)):
        found = sorted(_pickups(options))
        p50, p95 = statistics.median(found), found[int(len(found) * 0.95)]
        figures = f"{1000 * p50:.1f} / {1000 * p95:.1f} ms"
        say(f"from submit to the first line, {what}: p50 / p95", figures,
            "aim: p50 < 15 ms" if aim else "", p50 < aim if aim else None)  # fmt: skip


def _against_rq(server: str, at_once: int) -> None:
    preloaded, fresh, theirs = [], [], []
    for _ in range(ROUNDS):
        preloaded.append(_stayer(at_once, "--preload"))
        fresh.append(_stayer(at_once))
        theirs.append(rq_pace(server, at_once))
    ratio = statistics.median(our / their for our, their in zip(preloaded, theirs, strict=True))
    rates = ", ".join(
        f"{name} {statistics.median(some):,.0f}/s"
        for name, some in (("preloaded", preloaded), ("fresh", fresh), ("rq", theirs))
    )
    say(f"{at_once} at once ({rates})", f"{ratio:.2f} × rq", "aim ≥ 2", ratio >= 2)


def _stayer(at_once: int, *options: str) -> float:
    """Tasks a second, of a backlog that is submitted when the worker waits."""
    with _worker(at_once, *options) as path:
        from bench.jobs import nothing

        before, tasks = _complete(path), TASKS if options else FRESH_TASKS
        nothing.submit_many({"number": number} for number in range(tasks))
        return pace(lambda: _complete(path) - before, tasks)


def _pickups(options: tuple[str, ...]) -> list[float]:
    with _worker(1, *options):
        from bench.jobs import first_line

        found = []
        for _ in range(PICKUPS):
            begin = time.monotonic()
            found.append(first_line.submit().wait() - begin)
        return found


@contextmanager
def _worker(slots: int, *options: str) -> Iterator[Path]:
    """A worker that has run a task; with `--preload`, one whose process was forked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stayer.db")
        os.environ["STAYER_STORE"] = f"sqlite:///{path}"
        from bench.jobs import app, parent

        app._client = None  # another store each time
        command = [
            sys.executable, "-m", "stayer", "worker", "--app", "bench.jobs",
            "--slots", str(slots), "--state-dir", f"{folder}/state", *options,
        ]  # fmt: skip
        expected = "stayer-first" if "--preload" in options else "stayer-keeper"
        with process(command):
            until(lambda: parent.submit().wait() == expected)
            yield path


def _complete(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute("SELECT complete FROM stayer_queues").fetchone()[0])
    finally:
        db.close()
