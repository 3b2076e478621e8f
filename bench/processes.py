"""Starting what is measured, and looking at what it costs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120.0
_LOOK = 0.02
ROOT = Path(__file__).parent.parent
_CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def process(command: list[str], **variables: str) -> Iterator[int]:
    """A program that runs until it is not needed any more; its pid."""
    with open(os.devnull, "r+b") as nothing:
        started = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            stdin=nothing, stdout=nothing, stderr=nothing,
        )  # fmt: skip
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait()


@contextmanager
def each_on_a_core(server: int) -> Iterator[None]:
    """A server on one, this process and what it starts on another. Left to the system, one server
    is woken on its client's core and the next is not, and that makes more of a difference than what
    is measured.
    """
    os.sched_setaffinity(server, _CORES[-1:])
    os.sched_setaffinity(0, _CORES[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, _CORES)
        os.sched_setaffinity(server, _CORES)


def until(condition: Callable[[], bool], pause: float = 0.002) -> None:
    """Wait for it, looking often."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what is measured does not come to its end")
        time.sleep(pause)


def pace(done: Callable[[], int], tasks: int) -> float:
    """Tasks a second, from when a tenth is done to the end: starting is not counted. Looked at
    rarely: to open a database is work, too, and disturbs who writes to it.
    """
    until(lambda: done() >= tasks // 10, _LOOK)
    first, begin = done(), time.perf_counter()
    until(lambda: done() >= tasks, _LOOK)
    return (tasks - first) / (time.perf_counter() - begin)


def cpu_seconds(pid: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def megabytes(pid: int) -> float:
    """The memory of a process, what it shares counted in part (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1000
    return 0.0


def descendants(pid: int) -> list[int]:
    """Its children and theirs."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in map(int, listed) for found in (child, *descendants(child))]
