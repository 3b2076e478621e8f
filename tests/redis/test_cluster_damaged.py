"""Garbage under the keys of a cluster's queues stops nothing there either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from redis.cluster import RedisCluster

from stayer.core.errors import StoreUnusable
from stayer.stores import open_store
from stayer.stores.redis.damage import Mending
from stayer.stores.redis.keys import REGISTRY_TAG
from stayer.stores.redis_cluster import open_store as open_cluster
from tests.contract.builders import new, submit
from tests.contract.damaged import GOOD, goes_on, look_at_everything, scene
from tests.redis.test_damaged import spoil
from tests.servers.cluster import Cluster

PREFIX = "damaged"


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[RedisCluster]:
    client = RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    yield client
    client.close()


def all_keys(raw: RedisCluster) -> list[bytes]:
    found = raw.keys(f"{PREFIX}:*", target_nodes=RedisCluster.PRIMARIES)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("how", "step"),
    [
        ("type", 5), ("garbage", 7), ("cut", 9),
        *(pytest.param(how, 1, marks=pytest.mark.long) for how in ("type", "garbage", "cut")),
    ],
)  # fmt: skip
def test_garbage_under_any_key_stops_nothing(
    cluster: Cluster, raw: RedisCluster, how: str, step: int
) -> None:
    """Under each of them in the long tests, else under some."""
    for each in all_keys(raw):
        raw.delete(each)
    url = cluster.url(prefix=PREFIX)
    store = open_store(url)
    store.setup()
    scene(store)
    store.close()
    kept = {name: raw.dump(name) for name in sorted(all_keys(raw))}
    names = [name for name in kept if GOOD.encode() not in name]
    assert {b"damaged:{q}:task:runs", b"damaged:{%lobby}:workers", b"damaged:claim:runs"} < {*names}
    failed = []
    for name in names[::step]:
        for each in all_keys(raw):
            raw.delete(each)
        for each, value in kept.items():
            raw.restore(each, 0, value)
        spoil(raw, name, how)
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


@pytest.mark.parametrize("stray", [b"{}:task:2", b"{\xff}:task:1", b"{q:due", b"{q\xff}:due", b"{"])
def test_a_stray_key_keeps_nobody_from_mending(
    cluster: Cluster, raw: RedisCluster, stray: bytes
) -> None:
    """Redis hashes the whole of a key whose braces have nothing between them."""
    store = open_cluster(cluster.url())
    prefix = store._nodes.options.prefix
    submit(store, new("a", queue="q"), new("b", queue="r"))
    raw.set(prefix.encode() + b":" + stray, "foreign")
    for queue in "qr":
        raw.set(f"{prefix}:{{{queue}}}:due", "foreign")
    assert store.mending.mend()
    assert [raw.get(f"{prefix}:{{{queue}}}:damaged:due") for queue in "qr"] == [b"foreign"] * 2
    look_at_everything(store)
    store.close()


def test_a_place_that_fails_keeps_nobody_from_mending(
    cluster: Cluster, raw: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_cluster(cluster.url())
    prefix = store._nodes.options.prefix
    submit(store, *(new(queue=f"q{number}") for number in range(9)))
    for number in range(9):
        raw.set(f"{prefix}:{{q{number}}}:due", "foreign")
    mend = Mending.mend_these

    def fails_at_one(mending: Mending, names: Sequence[bytes]) -> bool:
        if any(b":{q0}:" in name for name in names):
            raise StoreUnusable("it has moved")
        return mend(mending, names)

    monkeypatch.setattr(Mending, "mend_these", fails_at_one)
    assert store.mending.mend()
    assert len(raw.keys(f"{prefix}:*:damaged:due", target_nodes=RedisCluster.PRIMARIES)) == 8
    store.close()


@pytest.mark.parametrize("id", ["plain", "a{b}c", "a}b", "a{}b", "{}", "a{b", "}{", "{a}{b}"])
def test_a_claim_stays_in_its_slot_when_it_is_set_aside(
    cluster: Cluster, raw: RedisCluster, id: str
) -> None:
    store = open_cluster(cluster.url())
    prefix = store._nodes.options.prefix
    submit(store, new("good", queue="q"))
    damaged = f"{prefix}:{{{REGISTRY_TAG}}}:damaged"
    raw.set(damaged, "foreign")
    for number in (1, 2, 3):
        raw.set(f"{prefix}:claim:{id}", "foreign")
        assert [task and task.id for task in store.get([id, "good"])] == [None, "good"]
        aside = raw.keys(f"{prefix}:damaged:*", target_nodes=RedisCluster.PRIMARIES)
        assert len(aside) == number
    assert raw.hkeys(damaged) == [f"{prefix}:claim:{id}".encode()]
    submit(store, new(id, queue="q"))
    store.close()
