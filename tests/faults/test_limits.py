"""Limits under harm: never one task too many, and no place that stays taken."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.core.model import RUNNING, Policy
from stayer.core.queue_model import QueueSettings, Rate
from stayer.core.submit.checks import new_task
from tests.faults.fleet import Fleet, until
from tests.faults.test_chaos import TASK
from tests.servers.finding import redis_binary
from tests.servers.redis import serving

NODES = ("one", "two", "three", "four")
AT_ONCE = 3
QUEUE_LIMIT: QueueSettings = {"limit": AT_ONCE}
KEY_LIMIT: QueueSettings = {"key_limit": AT_ONCE}
LIMITS = pytest.mark.parametrize("limit", [QUEUE_LIMIT, KEY_LIMIT], ids=["queue", "key"])


@pytest.fixture(params=["sqlite", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    if request.param == "sqlite":
        fleet = Fleet(tmp_path)
        yield fleet
        fleet.close()
        return
    with serving(redis_binary()) as server:
        fleet = Fleet(tmp_path, server.url())
        yield fleet
        fleet.close()


def add(fleet: Fleet, id: str) -> str:
    command = [fleet.python, "-c", TASK, str(fleet.stamps(id)), "10"]
    new = new_task(queue="default", id=id, command=command, key="licence")
    fleet.store.submit([replace(new, policy=Policy(retries=1000, losses=1000))])
    return id


def most_at_once(fleet: Fleet, ids: list[str]) -> int:
    """The most tasks that gave signs of life at one moment, each from its first to its last."""
    turns: list[tuple[float, int]] = []
    for id in ids:
        for stamps in fleet.read_stamps(id).values():
            turns += [(min(stamps), 1), (max(stamps), -1)]
    most = running = 0
    for _, step in sorted(turns, key=lambda turn: (turn[0], turn[1])):
        running += step
        most = max(most, running)
    return most


def finished(fleet: Fleet) -> int:
    [queue] = fleet.store.queues(["default"])
    return queue.counts.get("complete", 0)


def play(fleet: Fleet, limit: QueueSettings, tasks: int, harms: int, seed: int) -> None:
    choice = random.Random(seed)
    fleet.store.set_queue("default", **limit)
    ids = [add(fleet, f"task-{number}") for number in range(tasks)]
    workers = {name: fleet.worker(name) for name in NODES}
    for deed in range(harms):
        until(lambda deed=deed: finished(fleet) >= deed * tasks // harms // 2)  # type: ignore[misc]
        name = choice.choice(NODES)
        keepers = fleet.keepers(name)[1:]  # the nursery is spared: it ends what a keeper leaves
        if keepers and choice.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(choice.choice(keepers), signal.SIGKILL)
        else:
            fleet.signal(workers[name], signal.SIGKILL)
            workers[name] = fleet.worker(name)
    until(lambda: finished(fleet) == tasks, "for all tasks to finish")
    assert most_at_once(fleet, ids) <= AT_ONCE
    for id in ids:
        assert fleet.endings(id).count("done") == 1

    # Then no place is taken: as many as may run at once do, and the last one ends
    last = [add(fleet, f"last-{number}") for number in range(AT_ONCE)]
    for id in last:
        fleet.until_state(id, "complete")
    [queue] = fleet.store.queues(["default"])
    assert sum(queue.counts.get(state, 0) for state in RUNNING) == 0


@LIMITS
def test_a_limit_holds_while_workers_and_keepers_are_killed(
    fleet: Fleet, limit: QueueSettings
) -> None:
    play(fleet, limit, tasks=16, harms=6, seed=random.randrange(2**32))


@pytest.mark.long
@LIMITS
@pytest.mark.parametrize("seed", range(2))
def test_a_limit_holds_for_long(fleet: Fleet, limit: QueueSettings, seed: int) -> None:
    play(fleet, limit, tasks=200, harms=60, seed=seed)


def test_a_rate_starts_a_waiting_task_when_it_allows(fleet: Fleet) -> None:
    """Workers sleep until then: nothing else wakes them."""
    fleet.store.set_queue("default", rate=Rate(1, 1.5))
    for name in ("one", "two"):
        fleet.worker(name)
    until(lambda: len(fleet.store.workers()) == 2)
    ids = [add(fleet, f"task-{number}") for number in range(4)]
    for id in ids:
        fleet.until_state(id, "complete")
    begins = sorted(
        attempt.reserved_at or 0.0 for id in ids for attempt in fleet.store.attempts(id)
    )
    assert begins[-1] - begins[0] >= 3 * 1.5 - 0.01
