"""Workers on a real Redis server: what holds on SQLite when things die holds here too, and more of
it, because the server itself can be killed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, until
from tests.faults.test_chaos import test_chaos_loses_nothing_and_doubles_nothing
from tests.faults.test_keeping import test_a_silent_worker_that_keeps_is_not_declared_lost
from tests.faults.test_worker_dies import (
    test_a_healthy_task_much_longer_than_the_lease_runs_once,
    test_a_stopped_worker_freezes_before_another_takes_its_task,
    test_a_task_outlives_its_worker_and_is_recorded_by_the_next_one,
    test_a_task_that_ends_while_no_worker_lives_is_recorded,
    test_drain_finishes_what_runs_and_takes_no_more,
    test_hup_leaves_tasks_running_for_the_next_worker,
    test_term_hands_tasks_back_to_the_front,
    test_what_is_lost_with_its_node_runs_again_elsewhere,
)
from tests.servers.finding import redis_binary, valkey_binary
from tests.servers.redis import RedisServer, serving

__all__ = (
    "test_a_healthy_task_much_longer_than_the_lease_runs_once",
    "test_a_silent_worker_that_keeps_is_not_declared_lost",
    "test_a_stopped_worker_freezes_before_another_takes_its_task",
    "test_a_task_outlives_its_worker_and_is_recorded_by_the_next_one",
    "test_a_task_that_ends_while_no_worker_lives_is_recorded",
    "test_chaos_loses_nothing_and_doubles_nothing",
    "test_drain_finishes_what_runs_and_takes_no_more",
    "test_hup_leaves_tasks_running_for_the_next_worker",
    "test_term_hands_tasks_back_to_the_front",
    "test_what_is_lost_with_its_node_runs_again_elsewhere",
)

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=[redis_binary, pytest.param(valkey_binary, marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with serving(request.param(), *ALWAYS) as server:
        yield server


@pytest.fixture
def fleet(tmp_path: Path, server: RedisServer) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, server.url("fleet"))
    yield fleet
    fleet.close()


def test_a_server_that_is_killed_and_comes_back_disturbs_no_task(
    fleet: Fleet, server: RedisServer
) -> None:
    fleet.worker(lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    server.stop(signal.SIGKILL)
    seen = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=seen + 200)
    server.start()
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert fleet.endings("a") == ["done"]


def test_what_ends_while_the_server_is_gone_is_recorded_once(
    fleet: Fleet, server: RedisServer
) -> None:
    one = fleet.worker(lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    server.stop(signal.SIGKILL)
    fleet.finish("a")
    [run] = (fleet.folder / "one" / "run").iterdir()
    until((run / "exit").exists, "for the task to end")
    server.start()
    assert fleet.until_ended("a").state == "complete"
    assert fleet.endings("a") == ["done"]
    assert [worker.pid for worker in fleet.store.workers()] == [one], "it never ended"


def test_a_server_gone_for_longer_than_the_lease_freezes_and_thaws(
    fleet: Fleet, server: RedisServer
) -> None:
    fleet.worker()
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    [run] = (fleet.folder / "one" / "run").iterdir()
    server.stop(signal.SIGKILL)
    until(lambda: '"fenced"' in (run / "running").read_text(), "for the freeze")
    frozen = len(fleet.read_stamps("a")[1])
    server.start()
    fleet.until_stamped("a", more_than=frozen)
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1
