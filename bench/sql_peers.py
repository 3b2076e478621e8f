"""Stayer and its peers on one PostgreSQL server that waits for its disk, one after the other, in
rounds; and Stayer on MariaDB beside them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct, field

from bench.against_peers import environments
from bench.measure import say
from bench.peers import marks
from bench.processes import ROOT, process, until

ROUNDS, PROBES, EACH, BULK, SUBMITTERS = 3, 100, 300, 2000, 8
DRAINED = {
    "stayer": 20_000, "stayer-mariadb": 20_000, "pgqueuer": 10_000, "procrastinate": 600,
    "huey-sql": 1000, "dbos": 600,
}  # fmt: skip
_VERSIONS = ROOT / "bench" / "peers" / "sql_versions.toml"


class Found(Struct):
    """What was measured of one: a number a round."""

    each: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    """Several who submit at once."""
    bulk: list[float] = field(default_factory=list)
    drain: list[float] = field(default_factory=list)
    pickups: list[float] = field(default_factory=list)


def sql_peers() -> None:
    """The aims: see `_report`."""
    from tests.servers.finding import postgres_binaries
    from tests.servers.mariadb import serving as mariadb_serving
    from tests.servers.postgres import serving

    pythons = {"stayer": sys.executable, **environments(None, _VERSIONS)}
    with (
        serving(postgres_binaries(), "shared_buffers=256MB", careless=False) as server,
        mariadb_serving("--innodb-buffer-pool-size=256M") as mariadb,
        tempfile.TemporaryDirectory() as folder,
    ):
        urls = {}
        for name in pythons:
            server.psql(f'CREATE DATABASE "{name}";')
            urls[name] = f"postgresql:///{name}?host={server.folder}&user=postgres"
        pythons["stayer-mariadb"], urls["stayer-mariadb"] = sys.executable, mariadb.url()
        peers = [Peer(name, pythons[name], urls[name], folder) for name in pythons]
        for peer in peers:
            peer.submit("install", 0)
        for _ in range(ROUNDS):
            for peer in peers:
                peer.measure()
    _report({peer.name: peer.found for peer in peers})


class Peer:
    """One that is measured, in its own environment."""

    def __init__(self, name: str, python: str, url: str, folder: str) -> None:
        self.name = name
        self.found = Found()
        self._module = name.partition("-")[0]
        self._python = python
        self._folder = Path(folder)
        self._marks = Path(folder, "marks")
        self._variables = {
            "BENCH_STORE": url, "STAYER_STORE": url, "BENCH_MARKS": str(self._marks),
            "BENCH_FOLDER": f"{folder}/{name}",
        }  # fmt: skip

    def measure(self) -> None:
        """One by one, several at once, in bulk; then all that is run, and how soon one begins."""
        marks.make(self._marks, BULK)
        self.found.each.append(EACH / self.submit("each", EACH)[0])
        with ExitStack() as stack:
            seconds = [
                stack.enter_context(self._submitting("each", EACH)) for _ in range(SUBMITTERS)
            ]
        self.found.together.append(
            SUBMITTERS * EACH / max(json.loads(each.stdout_text)[0] for each in seconds)
        )
        bulk = self.submit("bulk", BULK)
        self.found.bulk += [BULK / seconds for seconds in bulk]
        newest = BULK if bulk else EACH + 1
        if not bulk:
            self.submit("each", newest)
        with process([self._python, "-m", "bench.peers.working", self._module], **self._variables):
            until(lambda: marks.done(self._marks) >= newest)
        tasks = DRAINED[self.name]
        marks.make(self._marks, tasks)
        self.submit("bulk" if bulk else "each", tasks)
        with process([self._python, "-m", "bench.peers.working", self._module], **self._variables):
            until(lambda: marks.done(self._marks) >= tasks // 10)
            first, begin = marks.done(self._marks), time.perf_counter()
            until(lambda: marks.done(self._marks) >= tasks)
            self.found.drain.append((tasks - first) / (time.perf_counter() - begin))
            self.found.pickups += self.submit("pickup", PROBES)

    def submit(self, how: str, count: int) -> list[float]:
        with self._submitting(how, count) as running:
            pass
        found: list[float] = json.loads(running.stdout_text)
        return found

    @contextmanager
    def _submitting(self, how: str, count: int) -> Iterator[Running]:
        running = Running(
            [self._python, "-m", "bench.peers.submitting", self._module, how, str(count)],
            self._variables,
        )
        yield running
        running.finish()


class Running:
    """A program that submits."""

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env={**os.environ, **variables}, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.stdout_text = ""

    def finish(self) -> None:
        said, _ = self._process.communicate(timeout=300)
        if self._process.returncode:
            raise SystemExit("what submits has failed")
        self.stdout_text = said.splitlines()[-1]


def _report(found: dict[str, Found]) -> None:
    print(f"No-op tasks on one server with fsync, {ROUNDS} rounds, medians, tasks a second")
    print(f"    {'':<16}{'one by one':>12}{'8 at once':>12}{'bulk':>12}{'1 worker':>12}"
          f"{'pickup p50 / p99 ms':>22}")  # fmt: skip
    middle = statistics.median
    for name, each in found.items():
        ordered = sorted(each.pickups)
        p99 = ordered[int(len(ordered) * 0.99)]
        print(f"    {name:<16}{middle(each.each):>12,.0f}{middle(each.together):>12,.0f}"
              f"{f'{middle(each.bulk):,.0f}' if each.bulk else '–':>12}{middle(each.drain):>12,.0f}"
              f"{f'{1000 * middle(ordered):.1f} / {1000 * p99:.1f}':>22}")  # fmt: skip
    ours, fastest = found["stayer"], found["pgqueuer"]
    others = [each for name, each in found.items() if not name.startswith("stayer")]
    beside = found["stayer-mariadb"]
    for what, value, aim in (
        ("drain against pgqueuer", _ratio(ours.drain, fastest.drain), 2.0),
        ("bulk against pgqueuer", _ratio(ours.bulk, fastest.bulk), 3.0),
        ("one by one against the fastest", min(_ratio(ours.each, x.each) for x in others), 1.0),
        ("8 at once against one", _ratio(ours.together, ours.each), 3.0),
        ("pickup, the fastest against ours",
         min(middle(x.pickups) for x in others) / middle(ours.pickups), 1.0),
        ("MariaDB, one by one", _ratio(beside.each, ours.each), 0.5),
        ("MariaDB, bulk", _ratio(beside.bulk, ours.bulk), 0.5),
        ("MariaDB, drain", _ratio(beside.drain, ours.drain), 0.5),
    ):  # fmt: skip
        say(what, f"{value:.2f} ×", f"aim ≥ {aim}", value >= aim)


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
