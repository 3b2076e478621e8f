"""POST /v1/tasks against the same server with an empty handler; and many who listen."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.kinds import Kind
from bench.measure import ratio, say
from stayer.http.access import Access

CONNECTIONS = 32
SECONDS = 3.0
ROUNDS = 5


def post(kind: Kind) -> None:
    """The aims: ≥ 0.3 of an empty handler's rate; p99 < 20 ms at half of its own."""
    print(f"POST /v1/tasks on {kind.name}, {CONNECTIONS} connections")
    found: dict[str, list[float]] = {"stayer": [], "floor": []}
    costs: dict[str, list[float]] = {"stayer": [], "floor": []}
    with kind.fresh() as (store, _), served(store.url) as stayer, _floor() as floor:
        for _ in range(ROUNDS):
            for name, server in (("stayer", stayer), ("floor", floor)):
                before = server.cpu()
                rate = _load(server, SECONDS)["rate"]
                found[name].append(rate)
                costs[name].append((server.cpu() - before) / max(1.0, rate * SECONDS))
        ours, empty = (statistics.median(found[name]) for name in ("stayer", "floor"))
        half = _load(stayer, 2 * SECONDS, ours / 2)
    value, cheap = ratio(found, "stayer", "floor"), ratio(costs, "floor", "stayer")
    say(f"one task a request ({ours:,.0f}/s; empty {empty:,.0f}/s)", f"{value:.2f} × empty",
        "aim ≥ 0.3", value >= 0.3)  # fmt: skip
    mine, theirs = (1e6 * statistics.median(costs[name]) for name in ("stayer", "floor"))
    say(f"the same in CPU of the server ({mine:.0f} µs; empty {theirs:.0f} µs)",
        f"{cheap:.2f} × empty", "aim ≥ 0.3", cheap >= 0.3)  # fmt: skip
    say(f"at half of that ({half['rate']:,.0f}/s): p50 / p99",
        f"{1000 * half['p50']:.1f} / {1000 * half['p99']:.1f} ms", "aim: p99 < 20 ms",
        half["p99"] < 0.02)  # fmt: skip
    assert not half["refused"]


class Server(NamedTuple):
    """One that runs."""

    pid: int
    port: int
    token: str

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load(server: Server, seconds: float, rate: float = 0.0) -> dict[str, Any]:
    done = subprocess.run(
        [
            sys.executable, "-m", "bench.http_client", str(server.port), server.token,
            str(CONNECTIONS), str(seconds), str(rate),
        ],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def served(store: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "access.json")
        token = Access(file).add("bench", "submit")
        command = ["-m", "stayer", "serve", "--store", store, "--port", "0"]
        command += ["--access-file", str(file), "--audit-log", str(Path(folder, "audit.log"))]
        with _started(command) as (pid, said):
            port = re.search(r":(\d+)$", said)
            assert port is not None, said
            yield Server(pid, int(port[1]), token)


@contextmanager
def _floor() -> Iterator[Server]:
    with _started(["-m", "bench.http_floor"]) as (pid, said):
        yield Server(pid, int(said), "none")


@contextmanager
def _started(command: list[str]) -> Iterator[tuple[int, str]]:
    """A server, and the first line that it says."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
