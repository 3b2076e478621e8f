"""The store is away while a task ends: how long it ran does not count until it was told."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.model import Task
from stayer.service.control import tasks as control
from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until
from tests.faults.pools import PoolFleet
from tests.faults.test_store_gone import store_gone
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving

A_WHILE = 3.0
"""How long an end waits to be told: long enough to tell it from what a busy machine takes."""
_READING = 0.2
"""Between one look at a clock and the next, if nothing else is at work."""
_TELLING = 0.9
"""Between the worker's look at its clock and the store's: less than it takes to hear of a thread's
start, and than an end waits here."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One that forgets nothing when it is stopped."""
    with serving(redis_binary(), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def pools(tmp_path: Path, server: RedisServer) -> Iterator[PoolFleet]:
    fleet = PoolFleet(tmp_path, server.url())
    yield fleet
    fleet.close()


def pass_by(seconds: float) -> None:
    """Time is what is waited for here."""
    end = moment() + seconds
    until(lambda: moment() > end)


def on_the_wall(at: float) -> float:
    """A moment of this machine as the store's clock, which is this machine's too, has it."""
    return time.time() - (moment() - at)


def assert_ended_between(fleet: Fleet, task: Task, first: float, last: float) -> None:
    """These are moments of this machine."""
    [attempt] = fleet.store.attempts(task.id)
    for ended in (task.finished_at, attempt.finished_at):
        assert ended is not None
        assert on_the_wall(first) - _READING <= ended <= on_the_wall(last) + _TELLING


def test_an_end_that_waits_for_the_store_is_when_it_was(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    with store_gone(fleet):
        asked = moment()
        fleet.finish("a")
        until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
        ended = moment()
        pass_by(A_WHILE)
    task = fleet.until_ended("a")
    assert task.state == "complete"
    assert_ended_between(fleet, task, asked, ended)


def test_so_it_is_if_another_worker_tells_of_it(fleet: Fleet) -> None:
    first = fleet.worker("one", lease=60)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    fleet.signal(first, signal.SIGKILL)
    asked = moment()
    fleet.finish("a")
    until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
    ended = moment()
    pass_by(A_WHILE)
    fleet.worker("one", lease=60)
    assert_ended_between(fleet, fleet.until_ended("a"), asked, ended)


def test_so_it_is_over_a_restart_of_a_server(tmp_path: Path, server: RedisServer) -> None:
    fleet = Fleet(tmp_path, server.url())
    try:
        fleet.worker("one", lease=60)
        fleet.stamper("a")
        fleet.until_stamped("a")
        fleet.until_state("a", "started")
        server.stop()
        asked = moment()
        fleet.finish("a")
        until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
        ended = moment()
        pass_by(A_WHILE)
        server.start()
        assert_ended_between(fleet, fleet.until_ended("a"), asked, ended)
    finally:
        fleet.close()


def test_so_it_is_of_a_thread(pools: PoolFleet, server: RedisServer) -> None:
    pools.pool_worker(lease=60)
    pools.call_stamper("a")
    pools.until_stamped("a")
    task = pools.until_state("a", "started")
    first = pools.read_stamps("a")[1][0]
    assert task.started_at is not None
    assert task.started_at <= on_the_wall(first) + _TELLING
    server.stop()
    asked = moment()
    pools.finish("a")
    until(lambda: moment() > pools.read_stamps("a")[1][-1] + A_WHILE)
    before = moment()
    server.start()
    assert_ended_between(pools, pools.until_ended("a"), asked, before - A_WHILE / 2)


def test_a_thread_of_whose_start_nobody_heard_has_one(
    pools: PoolFleet, server: RedisServer
) -> None:
    pools.pool_worker(lease=60)
    pools.call_stamper("a")
    pools.until_stamped("a")
    server.stop()
    until(lambda: moment() > pools.read_stamps("a")[1][0] + A_WHILE)
    pools.finish("a")
    server.start()
    task = pools.until_ended("a")
    stamps = pools.read_stamps("a")[1]
    assert task.started_at is not None
    assert task.finished_at is not None
    assert task.finished_at - task.started_at >= stamps[-1] - stamps[0] - _READING


def test_what_stood_still_is_told_in_words_by_all_who_tell(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    control.pause(fleet.store, "a")
    until(lambda: fleet.get("a").paused)
    pass_by(A_WHILE)
    control.resume(fleet.store, "a")
    until(lambda: not fleet.get("a").paused)
    fleet.finish("a")
    fleet.until_ended("a")
    command = [sys.executable, "-m", "stayer", "show", "a", "--store", fleet.url]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    logged = (fleet.folder / "one.log").read_text()
    assert ", of which it stood still for " in " ".join(shown.split())
    assert ", of which it stood still for " in logged
