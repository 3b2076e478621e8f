"""A worker of a cluster that is slow: it is declared lost between two of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from stayer.core.errors import LeaseLost, StoreUnreachable
from stayer.core.model import Filter, Task
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import workers as worker_control
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis_cluster import ClusterStore
from stayer.stores.redis_cluster.router import REGISTRY
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


def declare_lost(store: Store) -> None:
    """Declare the worker lost, by who has heard nothing for long enough, until nothing is held."""
    numbers = {each.id: each.number for each in store.workers() if each.id == "w"}
    while lost := store.declare_lost("judge", numbers):
        worker_control.return_lost_tasks(store, lost)


@pytest.mark.parametrize(
    ("prepare", "step"),
    [
        pytest.param(with_tasks, beat_and_take(1), id="a first beat"),
        pytest.param(with_a_worker("q", "r"), beat_and_take(2), id="a beat"),
        pytest.param(with_a_worker("q"), take_elsewhere, id="a reserve in another queue"),
    ],
)
def test_what_a_worker_gets_that_is_declared_lost_between_two_steps_comes_back(
    cluster: Cluster, prepare: Callable[[Store], None], step: Callable[[Store], None]
) -> None:
    for store in interruptions(cluster, 1, prepare, step, declare_lost):
        declare_lost(store)
        assert store.holdings("w") == []
        with pytest.raises(LeaseLost):
            take(store, queues=QUEUES)
        register(store, "fresh", queues=QUEUES)
        names = sorted(ids(store.find(Filter(), None, 10).tasks))
        assert len(names) == 2
        assert sorted(ids(take(store, "fresh", QUEUES, 5))) == names


@pytest.fixture
def store(cluster: Cluster) -> Iterator[ClusterStore]:
    """One that knows a worker, which its queue does not know yet: replicas were away then."""
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    register(store, "judge", queues=())
    fill(store, 1)
    replicas = store._shards.server_of(REGISTRY).node().replicas
    replicas.confirm = False
    assert beat(store, worker(queues=("q",)), 1).away == ("q",)
    replicas.confirm = None
    yield store
    store.close()


def moved_in_between(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]
) -> None:
    """When the next one wants to let the queue know the worker, this happens first."""
    move_in = store._workers._move_in

    def and_then(*arguments: Any) -> None:
        monkeypatch.setattr(store._workers, "_move_in", move_in)
        move_in(*arguments)
        what()

    monkeypatch.setattr(store._workers, "_move_in", and_then)


def test_a_reserve_that_a_beat_overtakes_is_no_end_of_a_lease(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_in_between(store, monkeypatch, lambda: beat(store, worker(queues=("q",)), 2))
    assert len(take(store)) == 1
    assert beat(store, worker(queues=("q",)), 3).away == ()


def test_nor_is_a_beat_that_a_reserve_overtakes(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Task] = []
    moved_in_between(store, monkeypatch, lambda: given.extend(take(store)))
    assert beat(store, worker(queues=("q",)), 2).away == ()
    assert len(given) == 1


def test_who_was_declared_lost_while_it_was_introduced_is_given_nothing(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the registry shard went away before it could be asked again."""
    moved_in_between(store, monkeypatch, lambda: declare_lost(store))

    def away(*_: object) -> None:
        raise StoreUnreachable("the registry shard does not answer")

    with monkeypatch.context() as at_once:
        at_once.setattr(store._workers, "_check_alive", away)
        with pytest.raises(StoreUnreachable):
            take(store)
    with pytest.raises(LeaseLost):
        take(store)
    register(store, "fresh", queues=("q",))
    assert len(take(store, "fresh")) == 1
