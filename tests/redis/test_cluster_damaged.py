"""Garbage under the keys of a cluster's queues stops nothing there either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.cluster import RedisCluster

from stayer.stores import open_store
from stayer.stores.redis.cluster import open_store as open_cluster
from tests.contract.builders import new, submit
from tests.contract.damaged import GOOD, goes_on, look_at_everything, scene
from tests.servers.cluster import Cluster

PREFIX = "damaged"


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[RedisCluster]:
    client = RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    yield client
    client.close()


def test_a_key_of_another_type_in_a_queue_stops_nothing(
    cluster: Cluster, raw: RedisCluster
) -> None:
    url = cluster.url(prefix=PREFIX)
    store = open_store(url)
    store.setup()
    scene(store)
    store.close()
    kept = {name: raw.dump(name) for name in sorted(raw.keys(f"{PREFIX}:*"))}
    # Those of a queue: what all queues share has other places, and no shard of its own.
    names = [name for name in kept if name.startswith(f"{PREFIX}:{{".encode())]
    failed = []
    for name in (each for each in names if GOOD.encode() not in each):
        for each in raw.keys(f"{PREFIX}:*"):
            raw.delete(each)
        for each, value in kept.items():
            raw.restore(each, 0, value)
        is_text = raw.type(name) == b"string"
        raw.delete(name)
        raw.lpush(name, "foreign") if is_text else raw.set(name, "foreign")
        store = open_store(url)
        try:
            look_at_everything(store)
            goes_on(store)
            look_at_everything(store)
        except Exception as error:
            failed.append((name, repr(error)[:300]))
        finally:
            store.close()
    assert failed == []


def test_doctor_names_what_was_set_aside(cluster: Cluster, raw: RedisCluster) -> None:
    store = open_cluster(cluster.url(prefix="named"))
    store.setup()
    submit(store, new("a", queue="q"))
    raw.set("named:{q}:due", "foreign")
    look_at_everything(store)
    store.promote(10)
    found = [each for each in store.check() if each.check in ("damage", "keys")]
    store.close()
    assert [each.status for each in found] == ["warn"]
    assert "named:{q}:due is a string, not a zset" in found[0].message
