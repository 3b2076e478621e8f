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
from stayer.http.token_places import TokenFile
from stayer.http.token_records import Role
from stayer.http.tokens import Access

CONNECTIONS = 32
SECONDS = 3.0
ROUNDS = 5


def post(kind: Kind) -> None:
    """The aims: ≥ 0.3 of the rate of the same server with an empty handler, and of a bare ASGI
    callable, which is less than any server; p99 < 20 ms at half of its own rate.
    """
    print(f"POST /v1/tasks on {kind.name}, {CONNECTIONS} connections")
    with (
        kind.fresh() as (store, _), served(store.url) as stayer, _empty(store.url) as empty,
        _bare() as bare,
    ):  # fmt: skip
        servers = {"stayer": stayer, "empty": empty, "bare": bare}
        rates: dict[str, list[float]] = {name: [] for name in servers}
        costs: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(ROUNDS):
            for name, server in servers.items():
                before = server.cpu()
                rate = _load(server, SECONDS)["rate"]
                rates[name].append(rate)
                costs[name].append((server.cpu() - before) / max(1.0, rate * SECONDS))
        half = _load(stayer, 2 * SECONDS, statistics.median(rates["stayer"]) / 2)
    _compare(rates, costs, "empty", "the same server, empty handler")
    _compare(rates, costs, "bare", "a bare ASGI callable under uvicorn")
    say(f"at half of its rate ({half['rate']:,.0f}/s): p50 / p99",
        f"{1000 * half['p50']:.1f} / {1000 * half['p99']:.1f} ms", "aim: p99 < 20 ms",
        half["p99"] < 0.02)  # fmt: skip
    assert not half["refused"]


def _compare(
    rates: dict[str, list[float]], costs: dict[str, list[float]], floor: str, what: str
) -> None:
    mine, theirs = (statistics.median(rates[name]) for name in ("stayer", floor))
    value = ratio(rates, "stayer", floor)
    say(f"requests a second, {what} ({mine:,.0f}; {theirs:,.0f})", f"{value:.2f} × it",
        "aim ≥ 0.3", value >= 0.3)  # fmt: skip
    mine, theirs = (1e6 * statistics.median(costs[name]) for name in ("stayer", floor))
    value = ratio(costs, floor, "stayer")
    say(f"the same by CPU of the server ({mine:.0f} µs; {theirs:.0f} µs)", f"{value:.2f} × it",
        "aim ≥ 0.3", value >= 0.3)  # fmt: skip


class Server(NamedTuple):
    """One that runs."""

    pid: int
    port: int
    token: str
    more: tuple[str, ...] = ()
    """Other tokens of the same role: what one may have open is limited."""

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
def served(store: str, role: Role = "submit") -> Iterator[Server]:
    """Our own server, and a token of that role."""
    with _files(role) as (token, access_file, audit_log):
        command = ["-m", "stayer", "serve", "--store", store, "--port", "0"]
        command += ["--access-file", access_file, "--audit-log", audit_log]
        with _started(command) as (pid, said):
            port = re.search(r":(\d+)$", said)
            assert port is not None, said
            access = Access(TokenFile(Path(access_file)))
            more = tuple(access.add(f"bench {each}", role) for each in range(4))
            yield Server(pid, int(port[1]), token, more)


@contextmanager
def _empty(store: str) -> Iterator[Server]:
    """The same with a handler that does nothing."""
    with (
        _files() as (token, *files),
        _started(["-m", "bench.http_floor", store, *files]) as (pid, said),
    ):
        yield Server(pid, int(said), token)


@contextmanager
def _bare() -> Iterator[Server]:
    """An ASGI callable that checks nothing."""
    with _started(["-m", "bench.http_floor"]) as (pid, said):
        yield Server(pid, int(said), "none")


@contextmanager
def _files(role: Role = "submit") -> Iterator[tuple[str, str, str]]:
    """A token, the file that knows it, and a file for the audit log."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "access.json")
        yield Access(TokenFile(file)).add("bench", role), str(file), str(Path(folder, "audit.log"))


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
