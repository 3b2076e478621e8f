"""A worker of a cluster that is slow: it is buried between two of its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from stayer import control
from stayer.core.errors import LeaseLost
from stayer.core.model import EVERYTHING, Filter
from stayer.store import Store
from tests.contract.builders import beat, fill, ids, register, take, worker
from tests.redis.dying import interruptions
from tests.servers.cluster import Cluster

QUEUES = ("q", "r")


def beat_and_take(number: int) -> Callable[[Store], None]:
    """A beat, and what a worker does that believes in it."""

    def step(store: Store) -> None:
        with suppress(LeaseLost):
            beat(store, worker(queues=QUEUES), number)
            take(store, queues=QUEUES, limit=5)

    return step


def take_elsewhere(store: Store) -> None:
    """From a queue that does not know the worker yet."""
    with suppress(LeaseLost):
        store.reserve("w", ["r"], 5, EVERYTHING)


def with_tasks(store: Store) -> None:
    register(store, "judge", queues=())
    fill(store, 1)
    fill(store, 1, "r")


def with_a_worker(*queues: str) -> Callable[[Store], None]:
    def prepare(store: Store) -> None:
        with_tasks(store)
        register(store, queues=queues)

    return prepare


def bury(store: Store) -> None:
    """All of a burial, by who has heard nothing for long enough."""
    numbers = {each.id: each.number for each in store.workers() if each.id == "w"}
    while lost := store.bury("judge", numbers):
        control.lose(store, lost)


@pytest.mark.parametrize(
    ("prepare", "step"),
    [
        pytest.param(with_tasks, beat_and_take(1), id="a first beat"),
        pytest.param(with_a_worker("q", "r"), beat_and_take(2), id="a beat"),
        pytest.param(with_a_worker("q"), take_elsewhere, id="a reserve in another queue"),
    ],
)
def test_what_a_worker_gets_that_is_buried_between_two_steps_comes_back(
    cluster: Cluster, prepare: Callable[[Store], None], step: Callable[[Store], None]
) -> None:
    for store in interruptions(cluster, 1, prepare, step, bury):
        bury(store)
        assert store.holdings("w") == []
        with pytest.raises(LeaseLost):
            take(store, queues=QUEUES)
        register(store, "fresh", queues=QUEUES)
        names = sorted(ids(store.find(Filter(), None, 10).tasks))
        assert len(names) == 2
        assert sorted(ids(take(store, "fresh", QUEUES, 5))) == names
