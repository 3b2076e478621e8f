"""Stayer and its peers on one Redis server, one after the other, in rounds.

Each is given a backlog of no-ops first, then its workers are started. A task leaves a byte in a
file that is shared (see `peers/marks.py`), so that watching costs nobody a round trip.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from msgspec import Struct, field

from bench.measure import say
from bench.peers import marks
from bench.processes import ROOT, cpu_seconds, descendants, process, until

ROUNDS = 3
IDLE_SECONDS = 10.0
PROBES = 200
EACH, BULK = 1000, 10_000
BACKLOG = {"stayer": 60_000, "repid": 12_000, "celery": 2000, "streaq": 3000, "rq": 800}
USUAL_BACKLOG = 4000
"""As many as take a few seconds."""
AIM = 5.0
_WIDTHS = (11, 10, 10, 10, 10, 10, 21, 11, 10, 11)
_ENVIRONMENTS = ROOT / ".tools" / "peers"
_VERSIONS = ROOT / "bench" / "peers" / "versions.toml"


class Found(Struct):
    """What was measured of one: a number a round."""

    each: list[float] = field(default_factory=list)
    bulk: list[float] = field(default_factory=list)
    drain: dict[int, list[float]] = field(default_factory=lambda: {1: [], 2: []})
    """By how many workers there are."""
    worker_cost: list[float] = field(default_factory=list)
    server_cost: list[float] = field(default_factory=list)
    """µs of CPU a task with one worker: the machine may be busy with other things, this tells."""
    pickups: list[float] = field(default_factory=list)
    idle: float = 0.0
    """Commands a second."""
    pending: float = 0.0
    finished: float = 0.0
    """Bytes a task."""


def peers(only: Sequence[str] | None = None) -> None:
    """The aim: 5 × the no-ops a second of the fastest, all of them or those that are named."""
    from tests.servers.finding import redis_binary
    from tests.servers.redis import free_port, serving

    pythons = {"stayer": sys.executable, **environments(only)}
    port = free_port()
    with (
        serving(redis_binary(), "--port", str(port), "--bind", "127.0.0.1"),
        tempfile.TemporaryDirectory() as folder,
    ):
        all_of_them = [Peer(name, python, port, folder) for name, python in pythons.items()]
        for _ in range(ROUNDS):
            for peer in all_of_them:
                peer.measure_speed()
        for peer in all_of_them:
            peer.measure_quiet()
    _report({peer.name: peer.found for peer in all_of_them})


class Peer:
    """One that is measured, in its own environment."""

    def __init__(self, name: str, python: str, port: int, folder: str) -> None:
        self.name = name
        self.found = Found()
        self._python = python
        self._server = redis.Redis(port=port)
        self._folder = Path(folder)
        self._marks = Path(folder, "marks")
        url = f"redis://127.0.0.1:{port}/0"
        self._variables = {
            "BENCH_REDIS": url, "STAYER_STORE": url, "BENCH_MARKS": str(self._marks),
            "BENCH_FOLDER": folder,
        }  # fmt: skip

    def measure_speed(self) -> None:
        """Submitting, draining with one worker and with two, memory."""
        self._begin(EACH)
        self.found.each.append(EACH / self._submit("each", EACH)[0])
        self._begin(BULK)
        for seconds in self._submit("bulk", BULK):
            self.found.bulk.append(BULK / seconds)
        for workers in (1, 2):
            tasks = BACKLOG.get(self.name, USUAL_BACKLOG)
            empty = self._begin(tasks)
            if not self._submit("bulk", tasks):
                self._submit("each", tasks)
            self.found.pending = (self._memory() - empty) / tasks
            with self._working(workers) as pids:
                self._drain(tasks, pids)
                # What it had to tell of the last ones is told when it looks for more.
                time.sleep(0.2)
                self.found.finished = (self._memory() - empty) / tasks

    def _drain(self, tasks: int, pids: list[int]) -> None:
        """From when a tenth is done to the end: starting is not counted."""
        until(lambda: marks.done(self._marks) >= tasks // 10)
        first, begin = marks.done(self._marks), time.perf_counter()
        workers, server = _cpu_of_all(pids), self._cpu()
        until(lambda: marks.done(self._marks) >= tasks)
        counted = tasks - first
        self.found.drain[len(pids)].append(counted / (time.perf_counter() - begin))
        if len(pids) == 1:
            self.found.worker_cost.append((_cpu_of_all(pids) - workers) * 1e6 / counted)
            self.found.server_cost.append((self._cpu() - server) * 1e6 / counted)

    def measure_quiet(self) -> None:
        """How soon a task begins, and what a worker asks of the server when there is none."""
        self._begin(0)
        with self._working(1):
            self.found.pickups = self._submit("pickup", PROBES)
            self._server.config_resetstat()
            time.sleep(IDLE_SECONDS)
            asked = self._server.info("commandstats")
        self.found.idle = sum(each["calls"] for each in asked.values()) / IDLE_SECONDS

    def _begin(self, tasks: int) -> int:
        """An empty server, nothing done; what it needs for itself."""
        self._server.flushall()
        marks.make(self._marks, tasks)
        return self._memory()

    def _memory(self) -> int:
        return int(self._server.info("memory")["used_memory"])

    def _cpu(self) -> float:
        used = self._server.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    def _submit(self, how: str, count: int) -> list[float]:
        done = subprocess.run(
            [self._python, "-m", "bench.peers.submitting", self.name, how, str(count)],
            env={**os.environ, **self._variables}, cwd=ROOT, stdout=subprocess.PIPE,
            check=True, timeout=300,
        )  # fmt: skip
        seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
        return seconds

    @contextmanager
    def _working(self, workers: int) -> Iterator[list[int]]:
        """So many workers; their pids."""
        command = [self._python, "-m", "bench.peers.working", self.name]
        before = len(self._server.client_list())
        with ExitStack() as stack:
            pids = []
            for number in range(workers):
                own = {**self._variables, "BENCH_FOLDER": f"{self._folder}/{self.name}-{number}"}
                pids.append(stack.enter_context(process(command, **own)))
            yield pids
        until(lambda: len(self._server.client_list()) <= before)


def _cpu_of_all(pids: list[int]) -> float:
    return sum(cpu_seconds(each) for pid in pids for each in (pid, *descendants(pid)))


def environments(only: Sequence[str] | None, versions: Path = _VERSIONS) -> dict[str, str]:
    """The Python of each peer; an environment is made anew when its versions change."""
    found = {}
    known = tomllib.loads(versions.read_text())
    for name in only or known:
        if name not in known:
            raise SystemExit(f"no peer {name!r}: there are {', '.join(known)}")
        packages = known[name]
        folder = _ENVIRONMENTS / name
        python, stamp = folder / "bin" / "python", folder / "packages"
        wanted = "\n".join(packages)
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"  Getting {name}", flush=True)
            uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
            shutil.rmtree(folder, ignore_errors=True)
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
            _run(uv, "pip", "install", "--quiet", "--python", str(python), *packages)
            stamp.write_text(wanted)
        found[name] = str(python)
    return found


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _report(found: dict[str, Found]) -> None:
    print(f"No-op tasks on one Redis server, {ROUNDS} rounds, medians, tasks a second")
    head = ("", "one by one", "bulk", "1 worker", "2 workers", "worker µs", "server µs",
            "pickup p50 / p99 ms", "idle cmd/s", "B pending", "B finished")  # fmt: skip
    print("    " + _row(head))
    for name, each in found.items():
        ordered = sorted(each.pickups)
        p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
        cells = (
            name, _median(each.each), _median(each.bulk), _median(each.drain[1]),
            _median(each.drain[2]), _median(each.worker_cost), _median(each.server_cost),
            f"{1000 * p50:.1f} / {1000 * p99:.1f}", f"{each.idle:.1f}", f"{each.pending:,.0f}",
            f"{each.finished:,.0f}",
        )  # fmt: skip
        print("    " + _row(cells))
    for workers in (1, 2):
        ratios = {
            name: statistics.median(
                ours / theirs
                for ours, theirs in zip(
                    found["stayer"].drain[workers], each.drain[workers], strict=True
                )
            )
            for name, each in found.items()
            if name != "stayer"
        }
        fastest = min(ratios, key=lambda name: ratios[name])
        say(
            f"no-ops a second, {workers} of each, against the fastest ({fastest})",
            f"{ratios[fastest]:.1f} × {fastest}", f"aim ≥ {AIM:.0f}", ratios[fastest] >= AIM,
        )  # fmt: skip


def _row(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<9}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(cells[1:], _WIDTHS, strict=True)
    )


def _median(rounds: list[float]) -> str:
    return f"{statistics.median(rounds):,.0f}" if rounds else "–"
