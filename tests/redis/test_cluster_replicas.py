"""A node of a cluster loses its replica, and `?wait=1` wants one: it stands still, and alone."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from redis.crc import key_slot

from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Done
from stayer.core.ids import generate
from stayer.core.lifecycle import decide
from stayer.core.model import Filter
from stayer.core.worker_model import EVERYTHING
from stayer.service.degraded.ambiguous import naming_drawn_ids
from stayer.stores import open_store
from stayer.stores.redis.keys import REGISTRY_TAG
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import (
    PATIENCE,
    beat,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    worker,
)
from tests.servers.cluster import Cluster, clustered, node_of
from tests.servers.finding import redis_binary
from tests.servers.sentinel import until

QUEUES = ("a", "b", "c")
OF_THE_REGISTRY = node_of(REGISTRY_TAG)
WAIT = 1.0
DEAF = [
    pytest.param(OF_THE_REGISTRY, id="that of the registry"),
    pytest.param((OF_THE_REGISTRY + 1) % 3, id="another"),
]
Kill = Callable[[int], str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three primaries, each with a replica."""
    with clustered(redis_binary()) as cluster:
        yield cluster


@pytest.fixture
def store(cluster: Cluster) -> Iterator[ClusterStore]:
    url = cluster.url(wait=1, wait_timeout=f"{WAIT}s")
    warm = open_store(url)
    for queue in QUEUES:
        until_done(partial(warm.set_queue, queue, paused=False))
    warm.close()
    store = open_store(url)
    assert isinstance(store, ClusterStore)
    register(store, queues=QUEUES)
    yield store
    store.close()


@pytest.fixture
def kill_replica(cluster: Cluster) -> Iterator[Kill]:
    """Kills the replica of a node; the queue that is there."""
    killed: list[int] = []

    def kill(number: int) -> str:
        killed.append(number)
        cluster.nodes[3 + number].signal(signal.SIGKILL)
        return next(queue for queue in QUEUES if node_of(queue) == number)

    yield kill
    for number in killed:
        cluster.nodes[3 + number].end()  # a test may have started it itself
        cluster.nodes[3 + number].start()


def until_done(step: Callable[[], object]) -> None:
    """Until replicas confirm."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            step()
            return
        except StoreUnreachable:
            assert time.monotonic() < deadline, "the replica does not come"
            time.sleep(0.05)


def id_elsewhere(store: ClusterStore, number: int, name: str) -> str:
    """An id whose claim is on another node than this one."""
    prefix = store._nodes.options.prefix
    names = (f"{name}{more}" for more in range(99))
    return next(
        each
        for each in names
        if int(key_slot(f"{prefix}:claim:{each}".encode())) * 3 // 16384 != number
    )


@pytest.mark.parametrize("deaf", DEAF)
def test_beats_go_on_without_waiting(
    store: ClusterStore, kill_replica: Kill, deaf: int, cluster: Cluster
) -> None:
    kill_replica(deaf)
    for number in range(2, 6):
        store._nodes.forget()  # who knows of homes and queues tells it again then
        begun = time.monotonic()
        assert beat(store, worker(queues=QUEUES), number).away == ()
        assert time.monotonic() - begun < WAIT / 2


@pytest.mark.parametrize("deaf", DEAF)
def test_the_queues_of_other_nodes_go_on(
    store: ClusterStore, kill_replica: Kill, deaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = {queue: started(store, queue=queue) for queue in QUEUES}
    submit(store, *(new(f"in {queue} {number}", queue) for queue in QUEUES for number in "123"))
    lost = kill_replica(deaf)
    living = [queue for queue in QUEUES if queue != lost]
    found = take(store, queues=QUEUES, limit=9)
    assert sorted(ids(found)) == [f"in {queue} {number}" for queue in living for number in "123"]
    for queue in living:
        store._nodes.forget()
        assert store.commit([decide(running[queue], Done())])[0] is not None
        assert get(store, running[queue].id).state == "complete"
        submit(store, new(id_elsewhere(store, deaf, queue), queue))

    # And it is not waited for as long as the URL grants each time
    silent = store._shards.server_of(lost).node().replicas
    assert silent._brief_until > 0
    monkeypatch.setattr(silent, "_brief_until", math.inf)  # however slow this machine is
    granted: list[float] = []
    question = silent.question

    def noted(given: float) -> tuple[Any, ...]:
        granted.append(given)
        return question(given)

    monkeypatch.setattr(silent, "question", noted)
    found = take(store, queues=QUEUES, limit=9)
    assert {task.queue for task in found} == set(living)
    assert store.turn("w", [decide(task, Done()) for task in found], QUEUES, 9, EVERYTHING) == (
        [True] * len(found),
        [],
    )
    assert granted
    assert max(granted) < WAIT


def test_who_comes_meanwhile_takes_tasks_when_replicas_know_where_to_look_for_it(
    cluster: Cluster, store: ClusterStore, kill_replica: Kill
) -> None:
    submit(store, *(new(f"in {queue}", queue) for queue in QUEUES))
    kill_replica(OF_THE_REGISTRY)
    register(store, "late", queues=QUEUES)
    for number in (2, 3):
        beat(store, worker("late", queues=QUEUES), number)
    with pytest.raises(StoreUnreachable):
        take(store, "late", QUEUES, 9)
    assert store.holdings("late") == [], "a failover would leave nobody who knows of it"
    cluster.nodes[3 + OF_THE_REGISTRY].start()
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < 3:
        assert time.monotonic() < deadline
        until_done(lambda: found.extend(ids(take(store, "late", QUEUES, 9))))
    assert sorted(found) == [f"in {queue}" for queue in QUEUES]
    assert beat(store, worker("late", queues=QUEUES), 4).away == ()


def test_what_is_said_of_a_submission_is_true(
    store: ClusterStore, kill_replica: Kill, cluster: Cluster
) -> None:
    kill_replica(OF_THE_REGISTRY)
    with pytest.raises(StoreUnreachable) as caught:
        submit(store, new("ex", "a queue that there was not"))
    assert store.get(["ex"]) == [None]
    said = str(caught.value)
    assert "may be done or not" in said
    assert "same id is harmless" in said
    assert "has done" not in said
    assert "enlist" not in said


def test_the_ids_that_are_said_are_those_that_were_used(
    store: ClusterStore, kill_replica: Kill, cluster: Cluster
) -> None:
    """Where a node is away others are drawn: to submit those again makes none twice."""
    deaf = (OF_THE_REGISTRY + 1) % 3
    queue = kill_replica(deaf)
    until(store._nodes.absent, "for it to be missed")
    prefix = store._nodes.options.prefix
    ids_there = (id for id in iter(generate, "") if node_of(f"{prefix}:claim:{id}") == deaf)
    task = new(next(ids_there), queue, generated=True)
    with pytest.raises(StoreUnreachable) as caught, naming_drawn_ids(store, [task]):
        store.submit([task])
    found = store.find(Filter(queues=(queue,)), None, 9).tasks
    assert caught.value.drawn == tuple(ids(found)) != (task.id,)
    assert f"may be there as {found[0].id}" in str(caught.value)
