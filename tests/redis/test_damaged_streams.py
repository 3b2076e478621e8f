"""Entries of others in the streams of events: nothing stops, no number comes twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stayer.core.happenings import Done, Start
from stayer.core.insight.health import Finding
from stayer.stores import open_store
from stayer.stores.redis import RedisStore, damage
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import (
    apply,
    check_counts,
    counts,
    get,
    happened,
    new,
    register,
    submit,
    take_one,
)
from tests.servers.cluster import Cluster

LAST_OF_ALL = "18446744073709551615-18446744073709551615"


@pytest.fixture
def clustered(cluster: Cluster) -> Iterator[ClusterStore]:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    store.setup()
    yield store
    store.close()


def said(findings: list[Finding]) -> str:
    return "; ".join(each.message for each in findings if each.check in ("keys", "damage"))


def test_an_entry_of_another_is_no_end(store: RedisStore) -> None:
    ask, prefix = store._server.ask, store._server.address.prefix
    register(store)
    submit(store, new("a"), new("b"))
    for number, id in enumerate(["*", LAST_OF_ALL, "*"]):
        before = store.last_event()
        ask("XADD", f"{prefix}:events", id, "a", "b")
        assert f"{prefix}:events has entries up to" in said(store.check())
        submit(store, new(f"one {number}"))
        ask("XADD", f"{prefix}:events", id, "a", "b")
        submit(store, new(priority=1), new(delay=9))
        ask("XADD", f"{prefix}:events", id, "a", "b")
        task = apply(store, take_one(store), Start(pid=1))
        ask("XADD", f"{prefix}:events", id, "a", "b")
        apply(store, task, Done())
        numbers = [event.number for event in store.watch(0, 0, 100)]
        assert before < store.last_event() < before + 20
        assert numbers[-1] == store.last_event()
        assert numbers == sorted({*numbers})
        assert get(store, f"one {number}").state == "pending"
    check_counts(store)
    assert f"{prefix}:events has" in said(store.check())
    assert ask("EXISTS", f"{prefix}:damaged:events", f"{prefix}:damaged:events~2") == 2


def test_nothing_is_half_done_where_the_stream_is_none(store: RedisStore) -> None:
    ask, prefix = store._server.ask, store._server.address.prefix
    register(store)
    submit(store, new("a"))
    ask("DEL", f"{prefix}:events")
    ask("SET", f"{prefix}:events", "foreign")
    assert store.submit([new("b")])[0].fresh
    assert happened(store.events("b")) == ["pending"]
    assert ask("GET", f"{prefix}:damaged:events") == b"foreign"
    check_counts(store)


def test_the_last_number_is_of_the_newest_event_that_is_ours(store: RedisStore) -> None:
    """Where `last` is gone, too."""
    ask, prefix = store._server.ask, store._server.address.prefix
    submit(store, new("a"), new("b"))
    last = store.last_event()
    for mend in (False, True):
        ask("XADD", f"{prefix}:events", "*", "a", "b")
        ask("DEL", f"{prefix}:last")
        if mend:
            assert damage.Mending(store._server).mend()
        submit(store, new())
        last += 1
        assert store.last_event() == last


@pytest.mark.parametrize(
    "entry",
    [("a", "b"), ("e", "b"), ("e", b"\xff\xfe"), ("e", b"\x91\x90"), ("e", "b", "c", "d")],
)
def test_an_entry_that_cant_be_read_is_taken_out(
    store: RedisStore, entry: tuple[str | bytes, ...]
) -> None:
    ask, prefix = store._server.ask, store._server.address.prefix
    submit(store, new("a"))
    seen = len(store.watch(0, 0, 100))
    ask("XADD", f"{prefix}:events", f"{store.last_event()}-1", *entry)
    submit(store, new("b"))
    assert len(store.watch(0, 0, 100)) == seen + 1
    assert f"{prefix}:events has what can't be read" in said(store.check())
    store.mending.mend()
    assert ask("XLEN", f"{prefix}:events") == 2
    assert "could not be read, set aside" in said(store.check())


def test_an_entry_that_says_nothing_is_passed_over(store: RedisStore) -> None:
    ask, prefix = store._server.ask, store._server.address.prefix
    submit(store, new("a"))
    for empty in (b"\x90", b"\x80"):
        ask("XADD", f"{prefix}:events", f"{store.last_event()}-1", "e", empty)
        submit(store, new())
    assert len(store.watch(0, 0, 100)) == 3


def test_on_a_cluster_too(clustered: ClusterStore) -> None:
    store, prefix = clustered, clustered._nodes.options.prefix
    events, news = f"{prefix}:{{q}}:events", f"{prefix}:{{news}}:stream"
    submit(store, new("a"))
    assert len(store.watch(0, 0, 100)) == 1
    for number, name in enumerate([events, news, events, news], start=2):
        store._nodes.ask(name, "XADD", name, "*", "a", "b")
        assert f"{name} has entries up to" in said(store.check())
        submit(store, new(f"t{number}"))
        found = store.watch(number - 1, 0, 100)
        assert [(event.number, event.id) for event in found] == [(number, f"t{number}")]
        assert store.last_event() == number
        assert f"{name} has" in said(store.check())
    assert counts(store) == {"pending": 5}
    check_counts(store)


@pytest.mark.parametrize("entry", [("a", "b"), ("e", b"\xff\xfe"), ("e", "b", "c", "d")])
def test_on_a_cluster_what_cant_be_read_is_taken_out(
    clustered: ClusterStore, entry: tuple[str | bytes, ...]
) -> None:
    store, prefix = clustered, clustered._nodes.options.prefix
    submit(store, new("a"))
    assert len(store.watch(0, 0, 100)) == 1
    for last, name in enumerate((f"{prefix}:{{q}}:events", f"{prefix}:{{news}}:stream"), start=1):
        store._nodes.ask(name, "XADD", name, f"{last}-1", *entry)
        submit(store, new())
        assert len(store.watch(last, 0, 100)) == 1
    found = store.watch(0, 0, 100)
    assert [event.number for event in found] == [1, 2, 3]
    name = f"{prefix}:{{news}}:stream"
    assert f"{name} has what can't be read" in said(store.check())


def test_numbers_of_what_was_copied_that_are_none(clustered: ClusterStore) -> None:
    store, prefix = clustered, clustered._nodes.options.prefix
    relayed = f"{prefix}:{{news}}:relayed"
    submit(store, new("a"))
    assert store.last_event() == 1
    for value in ("", b"\xff", "1_0"):
        last = store.last_event()
        store._nodes.ask(relayed, "HSET", relayed, "", value)
        submit(store, new())
        assert store.watch(last, 0, 100)[-1].number == store.last_event() > last
