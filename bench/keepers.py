"""What a running task costs in memory: its keeper, and the nursery that forked it."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import say
from tests.keeper.harness import Node, wait_for

KEEPERS = 50
_SETTLED = 7.0
"""Seconds of life to measure after: a keeper has looked at its task more than once by then."""


def pss(pid: int) -> int:
    """Its share of memory in bytes: what it shares with others counts in part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/smaps_rollup has no Pss")


def keepers() -> None:
    """The aims: a keeper ≤ 1.5 MB, a nursery ≤ 8 MB, and hardly any CPU."""
    print(f"Keepers ({KEEPERS} of `sleep`, Python {sys.version.split()[0]})")
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder))
        try:
            node.renew()
            node.start("true").exit()
            alone = pss(node.nursery.pid)
            begin = time.perf_counter()
            attempts = [node.start("sleep", "1000") for _ in range(KEEPERS)]
            pids = [attempt.running()["keeper"] for attempt in attempts]
            took = time.perf_counter() - begin
            settled = time.monotonic() + _SETTLED
            wait_for(lambda: time.monotonic() > settled)
            each = statistics.mean(map(pss, pids))
            nursery = max(alone, pss(node.nursery.pid))
            before, start = sum(map(_cpu, pids)), time.monotonic()
            wait_for(lambda: time.monotonic() > start + 2 * _SETTLED)
            load = (sum(map(_cpu, pids)) - before) / (time.monotonic() - start)
        finally:
            node.close()
    say("a keeper (PSS, mean)", f"{each / 1e6:.2f} MB", "aim ≤ 1.5 MB", each <= 1.5e6)
    say("the nursery (PSS)", f"{nursery / 1e6:.2f} MB", "aim ≤ 8 MB", nursery <= 8e6)
    say("starting one", f"{1000 * took / KEEPERS:.1f} ms")
    say("CPU of all of them", f"{100 * load:.2f} % of a core")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
