"""Make the data of an older version, by that version itself: see README.md.

    cd CHECKOUT && PYTHONPATH=. .venv/bin/python …/tests/data/make.py …/tests/data/COMMIT

Modules that were renamed since are imported by their old names.
"""

from __future__ import annotations

import ast
import base64
import gzip
import io
import json
import lzma
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from shown import shown  # type: ignore[import-not-found]

import stayer
from stayer.core.happenings import (
    Ask,
    Cancel,
    Done,
    Fail,
    Happening,
    Interrupt,
    Retry,
    Snooze,
    Start,
    Stop,
)
from stayer.core.model import Fault, LogPiece, Policy, Progress, Report, Task, Usage
from stayer.core.queue_model import Rate
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import Clock, apply, beat, get, new, register, submit, take
from tests.servers.cluster import clustered
from tests.servers.finding import oldest_redis_binary, redis_binary
from tests.servers.redis import serving

Schedule = import_module("stayer.core.schedule").Schedule
Delivery = import_module("stayer.core.notices").Delivery
flows = import_module("stayer.core.flows")
Access = import_module("stayer.http.access").Access

DECLARE_LOST = "bury"
"""What the operation is called in that version."""
PREFIX = "stayer"
Command: TypeAlias = Callable[..., Any]
BOOM = Fault("ValueError", "no such file: 'a'", 'File "x.py", line 3\n  boom()\nValueError', 1)
POLICY = Policy(
    retries=3, retry_wait=10.0, retry_backoff=3.0, retry_cap=100.0, retry_on=("error", "oom"),
    give_up_on=("KeyError",), losses=2, time_limit=60.0, silence_limit=30.0, memory_limit=10**9,
    grace=5.0, fence="kill", time_growth=2.0, time_most=240.0, memory_growth=1.5,
    memory_most=4 * 10**9,
)  # fmt: skip


class Scene:
    """Fills a store with tasks in every state, in a time that stands still between the steps."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._beats = 1

    def play(self) -> None:
        queues = ("q", "other", "limited")
        register(self._store, "w", queues=queues, slots=8, version="0.1.0", lease=120.0)
        register(self._store, "gone", queues=queues, lease=1.0)
        self._settings()
        self._ended()
        self._retried()
        self._flow()
        self._lost()
        self._running()
        self._queued()
        self._schedules()
        self._notices()
        self._clock.advance(61)
        self._beat()
        self._store.sample()

    def _settings(self) -> None:
        self._store.set_queue("q", notify=("failed:mail", "https://example.org/all"))
        self._store.set_queue(
            "limited", limit=5, key_limit=2, key_limits={"ann": 1}, rate=Rate(3, 60.0),
            fair="owner", retention={"complete": 86400.0, "log": 3600.0},
        )  # fmt: skip
        self._store.set_queue("paused", paused=True)

    def _ended(self) -> None:
        values: list[Any] = [None, {"a": [1, 2.5, None, "ü ☃"]}, b"\x00\xff raw", "x" * 3000]
        for number, value in enumerate(values):
            self._run(f"done-{number}", Done(value), name="f", parameters=value)
        self._run("done-command", Done(0), command=("sh", "-c", "true"), cwd="/tmp", env={"A": "b"})
        self._run("failed", Fail(BOOM), name="f", owner="ann", tags=("x", "y z"))
        self._run("failed-alike", Fail(BOOM), name="f", notify=("failed,expired:mail",))
        self._run("killed", Fail(Fault("Killed", signal=9), "killed"), command=("ffmpeg", "in"))
        self._run("oom", Fail(Fault("OutOfMemory"), "oom"), command=("ffmpeg", "in"))
        self._run("unique-done", Done(), unique="free again")
        self._run("unique-kept", Done(), unique="kept", unique_for=10**6)
        submit(self._store, new("cancelled-early"))
        apply(self._store, get(self._store, "cancelled-early"), Cancel())
        self._start("cancelled-running")
        apply(self._store, get(self._store, "cancelled-running"), Cancel(grace=3.0))
        apply(self._store, get(self._store, "cancelled-running"), Stop())
        submit(self._store, new("expired", expire=5.0))
        self._clock.advance(10)
        self._store.promote(100)
        self._run("purged", Done())
        self._store.purge(["purged"], ("complete",), self._clock.now + 1, 10)

    def _retried(self) -> None:
        self._run("retried", Fail(BOOM), policy=POLICY)
        self._clock.advance(31)
        self._store.promote(100)
        [task] = take(self._store)
        self._report(task, checkpoint=b"step 2\n", progress=Progress(2.0, 10.0, "of ten"))
        apply(self._store, apply(self._store, task, Start(pid=5)), Interrupt("worker stopped"))
        [task] = take(self._store)
        apply(self._store, task, Done("at last"))
        self._run("to-be-retried", Fail(BOOM), policy=POLICY)  # scheduled now
        self._run("snoozed", Snooze(3600.0))
        self._run("by-hand-again", Fail(BOOM), Retry(), held=False, priority=-5)

    def _flow(self) -> None:
        parts = (
            flows.Part(name="get", queue="other", kind="get"),
            flows.Part(
                name="each", queue="other", kind="each", tasks=3, is_map=True, after=("get",)
            ),
            flows.Part(name="join", queue="other", kind="join", after=("each",)),
        )
        flow = flows.NewFlow(id="flow", name="nightly", owner="ann", parts=parts)
        each = [f"each-{number}" for number in range(3)]
        tasks = [
            new("get", "other", name="get", flow="flow", part="get"),
            *(
                new(id, "other", name="each", flow="flow", part="each", after=("get",))
                for id in each
            ),
            new(
                "join", "other", name="join", flow="flow", part="join", after=tuple(each),
                policy=Policy(when_failed="run", near="each-0", near_wait=30.0),
            ),
        ]  # fmt: skip
        assert self._store.submit_flow(flow, tasks)
        near = Policy(near="get", near_wait=10.0**6)
        submit(self._store, new("near", "other", name="near", after=("get",), policy=near))
        [task] = take(self._store, queues="other")
        apply(self._store, task, Done({"rows": 3}))
        self._store.promote(100)
        [task] = take(self._store, queues="other")
        apply(self._store, task, Fail(BOOM))
        self._store.promote(100)
        submit(
            self._store,
            new("behind", "other", name="late", behind=("each-1",)),
            new("after", "other", name="late", after=("each-2",), held=True),
        )

    def _lost(self) -> None:
        submit(self._store, new("lost", name="f"))
        [task] = take(self._store, "gone")
        apply(self._store, task, Start(pid=6))
        [task] = getattr(self._store, DECLARE_LOST)("w", {"gone": 1})
        apply(
            self._store, task, import_module("stayer.core.lifecycle").Lose("worker gone was silent")
        )
        register(self._store, "stale", queues=("q",), lease=1.0)

    def _running(self) -> None:
        self._start("running", "w", name="train", parameters={"epochs": 9}, owner="bob", key="k")
        task = get(self._store, "running")
        for number in range(4):
            self._clock.advance(20)
            self._report(
                task,
                progress=Progress(float(number), 9.0, f"epoch {number}", remaining=100.0),
                usage=Usage(20.0 * number, 10.0 * number, 10**8, 10**8, 5, 6, 2),
                log=(LogPiece(number * 8, f"epoch {number}\n".encode()),),
            )
        self._report(task, checkpoint=b"\x00weights", paused=True)
        self._start("asked", "w")
        apply(self._store, get(self._store, "asked"), Ask("set", {"time": 60.0}))
        apply(self._store, get(self._store, "asked"), Cancel(grace=9.0))
        submit(self._store, new("reserved", priority=100))
        assert take(self._store)[0].id == "reserved"
        submit(self._store, new("limited-1", "limited", owner="ann", key="ann"))
        assert take(self._store, queues="limited")[0].id == "limited-1"
        submit(self._store, new("left-behind", priority=100))
        [task] = take(self._store, "stale")
        apply(self._store, task, Start(pid=7))

    def _queued(self) -> None:
        now = self._clock.now
        submit(
            self._store,
            new(
                "everything", name="f", parameters=[1], priority=7, owner="ann", tags=("x",),
                key="k", unique="word", unique_while="waiting", unique_for=60.0, policy=POLICY,
                notify=("ended:mail",), start_before=now + 10**6,
            ),
            new("raw", parameters=b"\x00\x01"),
            new("long", parameters="y" * 5000),
            new("command", command=("ffmpeg", "-i", "in"), env={"LANG": "C"}),
            new("held", held=True),
            new("scheduled", eta=now + 500.0),
            new("scheduled-held", eta=now + 400.0, held=True),
            new("limited-2", "limited", owner="ann", key="ann"),
            new("limited-3", "limited", owner="bob", key="bob"),
            new("in-a-pause", "paused"),
        )  # fmt: skip

    def _schedules(self) -> None:
        task = new("-", name="f", parameters={"n": 1}, tags=("nightly",), policy=POLICY)
        self._store.put_schedule(Schedule(name="paused", cron="@daily", task=task, paused=True))
        self._store.put_schedule(
            Schedule(
                name="nightly", cron="*/5 * * * *", zone="Europe/Berlin", overlap="queue",
                catch_up="all", jitter=2.0, origin="stayer.toml", task=task,
                next=self._clock.now + 300,
            )
        )  # fmt: skip

    def _notices(self) -> None:
        taken = self._store.take_notices(["mail", ""], 3, 60.0, 86400.0)
        self._store.settle_notice(taken[0], Delivery(True, "200 OK"))
        self._store.settle_notice(taken[1], Delivery(False, "500", None))
        self._store.settle_notice(taken[2], Delivery(False, "timed out", 30.0))

    def _run(self, id: str, *happenings: Happening, **fields: Any) -> None:
        self._start(id, **fields)
        self._clock.advance(1.5)
        for happening in happenings:
            apply(self._store, get(self._store, id), happening)

    def _start(self, id: str, worker: str = "w", **fields: Any) -> None:
        submit(self._store, new(id, **{"priority": 100, **fields}))
        [task] = take(self._store, worker)
        assert task.id == id, (task.id, id)
        apply(self._store, task, Start(pid=4))

    def _report(self, task: Task, **news: Any) -> None:
        self._beat(Report(id=task.id, attempt=task.attempt, **news))

    def _beat(self, *reports: Report) -> None:
        self._beats += 1
        known = next(worker for worker in self._store.workers() if worker.id == "w")
        beat(self._store, known, self._beats, *reports)


def fill(url: str, by_hand: Callable[[], object] = lambda: None) -> dict[str, Any]:
    clock = Clock()
    store = open_store(url, clock=clock)
    store.setup()
    Scene(store, clock).play()
    by_hand()
    said: dict[str, Any] = shown(store)
    store.close()
    return said


def make_sqlite(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stayer.db")
        said = fill(f"sqlite:///{path}", lambda: insert(path))
        write_json(target / "sqlite.json.gz", said)
        keep_sqlite(path, target / "sqlite.db.gz")


def insert(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO stayer_tasks (id, queue, name, parameters, priority)"
            """ VALUES ('by-hand', 'q', 'f', '{"n": 1}', 2)"""
        )
    connection.close()


def keep_sqlite(path: Path, target: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    write_bytes(target, gzip.compress(path.read_bytes(), 9, mtime=0))


PUSHED = {"id": "by-hand", "queue": "q", "name": "f", "parameters": {"n": 1}, "priority": 2}


def make_redis(target: Path) -> None:
    """Key by key: what the oldest server dumps, every newer one restores."""
    with serving(oldest_redis_binary()) as server:
        url = server.url(PREFIX)
        write_json(target / "redis.json.gz", fill(url))
        ask: Command = open_store(url)._server.ask  # type: ignore[attr-defined]
        ask("RPUSH", f"{PREFIX}:incoming", json.dumps(PUSHED))
        write_json(target / "redis.keys.json.gz", dumped(ask))


def make_cluster(target: Path) -> None:
    with clustered(redis_binary(), replicas=0) as cluster:
        write_json(target / "cluster.json.gz", fill(cluster.url(prefix=PREFIX)))
        kept = [dumped(partial(node.ask, password="")) for node in cluster.nodes]
        write_json(
            target / "cluster.keys.json.gz", {k: v for each in kept for k, v in each.items()}
        )


def dumped(ask: Command) -> dict[str, tuple[int, str]]:
    """What RESTORE takes: milliseconds to live (0: for ever) and the value."""
    return {
        key.decode(): (max(ask("PTTL", key), 0), base64.b64encode(ask("DUMP", key)).decode())
        for key in ask("KEYS", "*")
    }


def make_state(target: Path) -> None:
    """A worker is killed; one of its tasks ends afterwards, one in Python fails, one goes on."""
    with tempfile.TemporaryDirectory() as name, started_worker(Path(name)) as (folder, store, pid):
        go, begun = folder / "go", folder / "begun"
        wait = f"until [ -e {go} ]; do sleep 0.05; done"
        script = (
            f'echo early; touch {begun}; {wait}; echo late; echo "1/2 half" > "$STAYER_REPORT";'
            ' echo state > "$STAYER_CHECKPOINT"; echo 7 > "$STAYER_RESULT"'
        )
        (folder / "fail.py").write_text(
            f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
            'raise ValueError("its own words")\n'
        )
        submit(
            store,
            new("ended", "default", command=("sh", "-c", script)),
            new("failed", "default", command=(sys.executable, str(folder / "fail.py"))),
            new("running", "default", command=("sh", "-c", "echo on; sleep 100000")),
        )
        names = ("ended", "failed", "running")
        until(lambda: all(get(store, id).state == "started" for id in names) and begun.exists())
        os.kill(pid, signal.SIGKILL)
        go.touch()
        runs = folder / "state" / "run"
        until(lambda: all((runs / f"{id}.1" / "exit").exists() for id in ("ended", "failed")))
        keep_sqlite(folder / "stayer.db", target / "state.db.gz")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        write_json(target / "state.json", {"boot": boot})
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as archive:
            archive.add(folder / "state", "state")
        write_bytes(target / "state.tar.gz", gzip.compress(raw.getvalue(), 9, mtime=0))


@contextmanager
def started_worker(folder: Path) -> Iterator[tuple[Path, Store, int]]:
    url = f"sqlite:///{folder}/stayer.db"
    store = open_store(url)
    store.setup()
    worker = subprocess.Popen(
        [
            sys.executable, "-m", "stayer", "worker", "--store", url, "--allow-commands",
            "--state-dir", str(folder / "state"), "--node", "old", "--slots", "4", "--lease", "10s",
        ],
        env={"PATH": "/usr/bin:/bin"},  # it is kept with each task
    )  # fmt: skip
    try:
        yield folder, store, worker.pid
    finally:
        worker.kill()
        worker.wait()
        for entry in Path("/proc").iterdir():  # keepers and tasks of this folder, nobody else's
            if entry.name.isdigit() and str(folder).encode() in _words(entry):
                os.kill(int(entry.name), signal.SIGKILL)
        store.close()


def _words(process: Path) -> bytes:
    try:
        return process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
    except OSError:
        return b""


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def make_tokens(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens")
        access = Access(path)
        secrets = {
            "reader": access.add("reader", "read"),
            "submitter": access.add("submitter", "submit", ("q", "other")),
            "operator": access.add("operator", "operate"),
        }
        secrets["login code"] = access.make_code(life=10**9)
        write_bytes(target / "tokens", path.read_bytes())
        write_json(target / "tokens.json", secrets)


NOT_OF_WORKERS = ("ui", "http", "stores/http", "stores/redis/cluster", "explain", "aio.py")
CLI = ("__init__.py", "command.py", "group.py", "output.py", "values.py", "worker.py",
       "worker_options.py")  # fmt: skip


def make_source(target: Path) -> None:
    """The code of a worker on SQLite or on one Redis server, to be run by tests: without comments
    and docstrings, which are a third of it.
    """
    source = Path(stayer.__file__).parent
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path in sorted(source.rglob("*.*")):
            place = path.relative_to(source).as_posix()
            if path.suffix in (".py", ".sql", ".lua") and is_of_workers(place):
                text = path.read_text()
                content = (stripped(text) if path.suffix == ".py" else text).encode()
                entry = tarfile.TarInfo(f"stayer/{place}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    packed = lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    write_bytes(target / "source.tar.xz", packed)


def is_of_workers(place: str) -> bool:
    if place.startswith("cli/"):
        return place.removeprefix("cli/") in CLI
    return not any(place == name or place.startswith(f"{name}/") for name in NOT_OF_WORKERS)


def stripped(code: str) -> str:
    """The code without comments and without strings that stand alone."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def write_json(path: Path, content: object) -> None:
    """Records are many, and compressed."""
    text = json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"
    write_bytes(path, gzip.compress(text, 9, mtime=0) if path.suffix == ".gz" else text)


def write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    print(f"{len(content):>8} {path.name}")


if __name__ == "__main__":
    into = Path(sys.argv[1])
    into.mkdir(exist_ok=True)
    for make in (make_sqlite, make_redis, make_cluster, make_state, make_tokens, make_source):
        make(into)
