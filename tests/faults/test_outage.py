"""A Redis server that goes away and comes back: what workers say of it, and how they leave."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, until
from tests.faults.pools import PoolFleet
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving

Away = Callable[[RedisServer], AbstractContextManager[None]]


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


def test_who_is_to_stop_leaves_outcomes_to_the_next_worker_if_the_store_is_away(
    fleet: Fleet, server: RedisServer
) -> None:
    worker = fleet.worker(lease=60)
    for id in ("a", "b", "c"):
        _begun(fleet, id)
    with gone(server):
        fleet.finish("a")
        until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
        fleet.signal(worker, signal.SIGTERM)
        assert fleet.end_of(worker) == 0
        assert "waiting for the store for 10s at most, to tell it of 3 outcomes" in _log(fleet)
        assert f"leaving 3 outcomes to the next worker on {fleet.folder}/one" in _log(fleet)
    fleet.worker(lease=60)
    assert (fleet.until_ended("a").state, fleet.endings("a")) == ("complete", ["done"])
    for id in ("b", "c"):
        fleet.until_stamped(id, attempt=2)
        assert fleet.endings(id) == ["interrupted", None]
        fleet.assert_no_overlap(id)


@pytest.mark.long
def test_who_is_to_stop_does_not_wait_for_a_store_that_never_answers(
    fleet: Fleet, server: RedisServer
) -> None:
    """Though its tasks stand still by then, and cannot be asked."""
    worker = fleet.worker("one", "--grace", "1s", lease=6.0)
    _begun(fleet)
    with silent(server):
        until(lambda: "task a stands still" in _log(fleet))
        fleet.signal(worker, signal.SIGTERM)
        assert fleet.end_of(worker) == 0
        assert "leaving 1 outcome to the next worker" in _log(fleet)
        assert not fleet.strays()
    fleet.worker(lease=6.0)
    fleet.until_stamped("a", attempt=2)
    assert fleet.endings("a") == ["interrupted", None]
    fleet.assert_no_overlap("a")


@pytest.mark.parametrize("away", [gone, pytest.param(silent, marks=pytest.mark.long)])
def test_who_has_nothing_to_tell_stops_also_without_a_store(
    fleet: Fleet, server: RedisServer, away: Away
) -> None:
    worker = fleet.worker(lease=60)
    until(lambda: "takes tasks from" in _log(fleet))
    with away(server):
        fleet.signal(worker, signal.SIGTERM)
        assert fleet.end_of(worker) == 0


@pytest.mark.parametrize("away", [gone, pytest.param(silent, marks=pytest.mark.long)])
def test_what_threads_held_is_handed_back_by_the_next_worker(
    server: RedisServer, tmp_path: Path, away: Away
) -> None:
    fleet = PoolFleet(tmp_path, server.url("pool"))
    try:
        worker = fleet.pool_worker(lease=60, grace=1.0)
        fleet.call_stamper("a")
        fleet.until_state("a", "started")
        with away(server):
            fleet.signal(worker, signal.SIGTERM)
            assert fleet.end_of(worker) == 0
            assert "leaving what its threads held to the next worker" in _log(fleet)
        fleet.pool_worker(lease=60)
        fleet.until_stamped("a", attempt=2)
        assert fleet.endings("a") == ["interrupted", None]
        assert fleet.get("a").losses == 0
    finally:
        server.stop(signal.SIGKILL)
        fleet.close()
