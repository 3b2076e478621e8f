"""Records that are gone from a cluster: each queue sees to its own, and ids are free again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stayer.stores import open_store
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import Clock, check_counts, fill, get, ids, new, register, submit, take
from tests.servers.cluster import Cluster


@pytest.fixture
def store(cluster: Cluster) -> Iterator[ClusterStore]:
    store = open_store(cluster.url(), clock=Clock())
    assert isinstance(store, ClusterStore)
    store.setup()
    register(store, queues=("q", "other"))
    yield store
    store.close()


def lose(store: ClusterStore, queue: str, id: str) -> None:
    server = store._shards.server_of(queue)
    assert server.ask("DEL", f"{server.address.prefix}:task:{id}") == 1


def tidy(store: ClusterStore) -> None:
    while store.promote(100) == 0.0:
        pass


def test_it_is_passed_over_and_told_of(store: ClusterStore) -> None:
    names = fill(store, 3)
    lose(store, "q", names[0])
    assert ids(take(store, limit=9)) == names[1:]
    tidy(store)
    check_counts(store)
    [finding] = [each for each in store.check() if each.check == "records"]
    assert "tasks lost: 1" in finding.message
    assert ":{q}:missing" in (finding.todo or "")


@pytest.mark.parametrize("queue", ["q", "other"])
def test_its_id_can_be_submitted_again(store: ClusterStore, queue: str) -> None:
    [id] = fill(store, 1)
    lose(store, "q", id)
    assert take(store) == []
    tidy(store)
    submit(store, new(id, queue))
    assert ids(take(store, queues=queue)) == [id]


def test_what_waits_for_it_in_another_queue_hears_of_it(store: ClusterStore) -> None:
    submit(store, new("up"), new("down", "other", after=("up",)))
    lose(store, "q", "up")
    assert take(store) == []
    tidy(store)
    assert get(store, "down").state == "cancelled"
