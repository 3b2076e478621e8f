"""Claims on ids whose submitter died: what becomes of them when their tasks are gone."""

from __future__ import annotations

from itertools import count

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Filter
from stayer.store import REMEMBERED
from stayer.stores import open_store
from stayer.stores.redis.keys import key
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import Clock, get, ids, new, register, take
from tests.redis.dying import Killed, Mortal, deaths
from tests.servers.cluster import Cluster


def forget_purged_ids(store: ClusterStore) -> None:
    """As the servers do when the time is over, which they don't take from the test's clock."""
    for server in store._nodes.primaries():
        for name in server.ask("KEYS", f"{store._nodes.options.prefix}:*:purged:*"):
            server.ask("DEL", name)


def seconds_left(store: ClusterStore, id: str) -> int:
    """Until the claim on an id expires; -1: never."""
    name = key("claim", store._nodes.options.prefix, id=id)
    return int(store._nodes.ask(name, "TTL", name))


def test_a_task_whose_submitter_died_does_not_run_again_when_its_id_is_forgotten(
    cluster: Cluster,
) -> None:
    ran = 0
    for requests in count():
        url, clock = cluster.url(), Clock()
        mortal = Mortal(url, requests)
        try:
            mortal.store.submit([new("a")])
            died = False
        except Killed:
            died = True
        store = open_store(url, clock=clock)
        assert isinstance(store, ClusterStore)
        register(store)
        if taken := take(store):
            ran += 1
            store.commit([decide(task, Done()) for task in taken])
            clock.advance(1)
            assert store.purge(None, FINISHED, store.now(), 10) == ["a"]
            [claim] = store._shards.claims.find(["a"])
            assert claim is not None
            assert claim.task is None
            assert 0 < seconds_left(store, "a") <= REMEMBERED

            clock.advance(REMEMBERED + 1)
            forget_purged_ids(store)
            assert store.get(["a"]) == [None]
            assert store.find(Filter(), None, 10).tasks == ()
            [again] = store.submit([new("a", "r")])
            assert (again.fresh, get(store, "a").queue) == (True, "r")
            assert seconds_left(store, "a") == -1, "as long as its task is there"
        mortal.store.close()
        store.close()
        if not died:
            break
    assert ran > 1


def test_a_task_whose_submitter_died_stays_deleted_with_its_queue(cluster: Cluster) -> None:
    dropped = 0
    for store, _ in deaths(
        cluster, 1, lambda store: None, lambda store, _: store.submit([new("a"), new("b")])
    ):
        there = sorted(ids(store.find(Filter(), None, 10).tasks))
        if there:
            assert store.drop_queue("q", 1) == 1
            assert store.drop_queue("q", 10) == 0
            assert store.get(there) == [None] * len(there)
            assert store.queues() == []
            dropped += 1
    assert dropped > 1


def test_a_claim_that_another_took_over_is_not_the_first_ones_any_more(cluster: Cluster) -> None:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    claims = store._shards.claims
    [first] = claims.claim([new("a", "q")])
    second = claims.take_over(first, new("a", "r"))
    assert second is not None
    assert claims.take_over(first, new("a", "s")) is None
    claims.settle([first])
    claims.expire([first])
    [kept] = claims.find(["a"])
    assert kept is not None
    assert (kept.queue, kept.nonce, kept.task) == ("r", second.nonce, second.task)
    assert seconds_left(store, "a") == -1
    store.close()
