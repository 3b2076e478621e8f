"""What a task uses: while it runs and when it is over, by the same measure."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stayer.keeper import accounts
from tests.keeper.harness import Attempt, Node, wait_for

KEYS = {"cpu", "rss", "peak", "read", "written", "processes"}
COUNTERS = ("cpu", "peak", "read", "written")
WATCHED = 1e9
"""A moment that does not come."""

BURN = """
import os, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""

isolations = pytest.mark.parametrize("isolate", [None, "pidns"])


def seen(attempt: Attempt, **at_least: float) -> dict[str, Any]:
    """The usage while it runs, once all of that has been used."""

    def enough() -> dict[str, Any] | None:
        usage: dict[str, Any] = attempt.running()["usage"]
        return usage if all(usage[name] >= value for name, value in at_least.items()) else None

    return wait_for(enough, f"usage of {at_least}")


@isolations
def test_what_has_ended_is_still_counted_while_the_rest_runs(node: Node, isolate: str) -> None:
    # One child reaped by its parent, one orphan reaped by the keeper.
    script = (
        BURN
        + """
def work():
    burn(0.3)
    data = os.open("/dev/zero", os.O_RDONLY)
    sink = os.open("/dev/null", os.O_WRONLY)
    for _ in range(100):
        os.write(sink, os.read(data, 100_000))
    os._exit(0)
if os.fork() == 0:
    work()
os.wait()
if os.fork() == 0:
    if os.fork() == 0:
        work()
    os._exit(0)
os.wait()
time.sleep(1000)
"""
    )
    attempt = node.python(script, isolate=isolate)
    attempt.running()
    attempt.go(watched=WATCHED)
    before = seen(attempt, cpu=0.55, read=20_000_000, written=20_000_000, processes=1)
    assert set(before) == KEYS
    assert before["processes"] == 1
    assert 0 < before["rss"] <= before["peak"]
    after = attempt.cancel(grace=0.0)["usage"]
    assert set(after) == KEYS | {"user", "system"}
    assert all(after[name] >= before[name] for name in COUNTERS)
    assert after["cpu"] >= after["user"] + after["system"]
    assert after["read"] < 21_000_000
    assert after["written"] < 21_000_000
    assert (after["rss"], after["processes"]) == (0, 0)


def test_what_the_keeper_itself_reads_and_writes_is_not_the_tasks(node: Node) -> None:
    attempt = node.shell("exec sleep 1000")
    attempt.running()
    attempt.go(watched=WATCHED)
    first = wait_for(lambda: attempt.running()["ran"] > 1.5 and attempt.running())
    for number in range(50):
        attempt.go(watched=WATCHED, unknown="x" * number * 100)
    last = wait_for(lambda: attempt.running()["ran"] > first["ran"] + 1.5 and attempt.running())
    assert last["usage"]["read"] == first["usage"]["read"]
    assert attempt.cancel()["usage"]["read"] == first["usage"]["read"]


def test_no_counter_ever_goes_back(node: Node) -> None:
    # Processes that nobody reaps, whose parent ignores it: their times are nobody's.
    script = (
        BURN
        + """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        burn(0.4)
        os._exit(0)
    time.sleep(0.7)
"""
    )
    attempt = node.python(script)
    attempt.running()
    attempt.go(watched=WATCHED)
    series = []
    while attempt.read("exit") is None:
        series.append(attempt.running()["usage"])
    series.append(attempt.exit()["usage"])
    for before, after in pairwise(series):
        assert all(after[name] >= before[name] for name in COUNTERS)
    assert series[-1]["cpu"] > 0.1


def test_one_that_is_watched_says_more(node: Node) -> None:
    attempt = node.shell("exec sleep 1000")
    attempt.running()
    attempt.go(watched=WATCHED)
    said: set[float] = set()

    def often() -> bool:
        said.add(attempt.running()["ran"])
        return len(said) >= 5  # else it would take minutes, for there is nothing new

    wait_for(often, "news")


def test_the_tree_is_counted(node: Node) -> None:
    attempt = node.nasty("many", births=501)
    attempt.go(watched=WATCHED)
    usage = seen(attempt, processes=501)
    assert usage["rss"] > 501 * 100_000


def test_a_kernel_that_does_not_count_what_is_read_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_PROC", str(tmp_path))
    monkeypatch.setattr(accounts, "_counters", {})
    usage = accounts.Accounts(None, None).final()
    assert (usage["read"], usage["written"]) == (0, 0)
