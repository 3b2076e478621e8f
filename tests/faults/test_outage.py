"""A Redis server that goes away and comes back: what workers say of it, and how they leave."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, until
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with serving(redis_binary(), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def fleet(server: RedisServer, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, server.url("fleet"))
    yield fleet
    server.stop(signal.SIGKILL)  # so that nobody waits for it
    fleet.close()


@contextmanager
def silent(server: RedisServer) -> Iterator[None]:
    """It takes what it is asked, and does not answer."""
    os.kill(server.pid, signal.SIGSTOP)
    yield
    os.kill(server.pid, signal.SIGCONT)


@contextmanager
def gone(server: RedisServer) -> Iterator[None]:
    """Nobody is there to be asked."""
    server.stop(signal.SIGKILL)
    yield
    server.start()


def _begun(fleet: Fleet, id: str = "a") -> None:
    fleet.stamper(id)
    fleet.until_stamped(id)
    fleet.until_state(id, "started")


def _log(fleet: Fleet, name: str = "one") -> str:
    return (fleet.folder / f"{name}.log").read_text()


def test_a_freeze_is_told_when_it_happens_and_once(fleet: Fleet, server: RedisServer) -> None:
    fleet.worker(lease=6.0)
    _begun(fleet)
    said = "WARNING task a stands still: the lease could not be renewed for 5"
    for times in (1, 2):
        with silent(server):
            until(lambda times=times: _log(fleet).count(said) == times, "for a word")  # type: ignore[misc]
        until(lambda times=times: _log(fleet).count("a goes on: it stood still") == times)  # type: ignore[misc]
    assert _log(fleet).count("stands still") == 2


def test_that_beats_fail_is_told_before_they_get_through_again(
    fleet: Fleet, server: RedisServer
) -> None:
    fleet.worker(lease=60)
    until(lambda: "takes tasks from" in _log(fleet))
    with gone(server):
        until(lambda: "failed, trying again" in _log(fleet), "for a beat that is told to fail")
    until(lambda: "get through again" in _log(fleet))
    assert _log(fleet).count("failed, trying again") == 1
