"""The ways in which a submit accepts a plain task leave the same behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stayer.core.happenings import Done, Start
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import Clock, apply, ids, new, register, take, take_one
from tests.redis.test_published import Listener
from tests.servers.redis import RedisServer

Opens = Callable[[str], RedisStore]

PLAIN = {
    "drawn": {"generated": True, "name": "train"},
    "chosen": {"name": "train", "owner": "me", "parameters": {"x": 1}},
    "a command": {"command": ("make", "all")},
    "neither": {"parameters": b"bytes" * 3},
    "a queue with an odd name": {"queue": "a{b}%c"},
    "held": {"held": True},
    "with a priority": {"priority": 3},
    "with much": {"parameters": "x" * 5000},
    "after a while": {"delay": 5.0},
}


@pytest.fixture
def opened(shared_server: RedisServer) -> Iterator[Opens]:
    stores: list[RedisStore] = []

    def open_(prefix: str) -> RedisStore:
        store = open_store(shared_server.url(prefix), clock=Clock())
        assert isinstance(store, RedisStore)
        store.setup()
        stores.append(store)
        return store

    yield open_
    for store in stores:
        store.close()


def contents(store: RedisStore) -> dict[str, Any]:
    """All that is below its prefix, but who it is, and events, which can be written in groups."""
    ask, prefix = store._server.ask, store._server.address.prefix
    readers = {
        b"string": lambda key: ask("GET", key),
        b"hash": lambda key: sorted(ask("HGETALL", key)),
        b"set": lambda key: sorted(ask("SMEMBERS", key)),
        b"zset": lambda key: ask("ZRANGE", key, 0, -1, "WITHSCORES"),
    }
    found = {}
    for key in ask("KEYS", f"{prefix}:*"):
        name = key.decode().removeprefix(prefix)
        if name not in (":meta", ":events"):
            found[name] = readers[ask("TYPE", key)](key)
    return found


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each be looked at by itself, as if an id came twice."""
    monkeypatch.setattr("stayer.stores.redis.has_one_twice", lambda _: 1)


@pytest.mark.parametrize("fields", PLAIN.values(), ids=PLAIN)
def test_one_alone_many_and_each_looked_at(
    opened: Opens, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, fields: Any
) -> None:
    tasks = [new(f"task-{number}", **fields) for number in range(3)]
    prefix = request.node.callspec.id.replace(" ", "-")
    alone, together, looked_at = (opened(f"{prefix}-{number}") for number in range(3))
    for store in (alone, together, looked_at):
        store.submit([new("before", "another")])  # the very first one has to be looked at
    told = [answer for task in tasks for answer in alone.submit([task])]
    assert together.submit(tasks) == told
    one_by_one(monkeypatch)
    assert [answer for task in tasks for answer in looked_at.submit([task])] == told
    assert contents(alone) == contents(together) == contents(looked_at)
    events = alone.watch(0, 0.0, 10)
    assert [event.id for event in events] == ["before", *(task.id for task in tasks)]
    assert together.watch(0, 0.0, 10) == looked_at.watch(0, 0.0, 10) == events


def test_who_listens_is_told_the_same(opened: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []
    for prefix in ("listened", "listened-one-by-one"):
        store = opened(prefix)
        store.submit([new("before")])
        listeners = [
            Listener(store._server.open_connection(), "SUBSCRIBE", f"{prefix}:{channel}")
            for channel in ("events", "{q}:wake")
        ]
        store.submit([new("a", name="train")])
        store.submit([new("b", name="train", generated=True)])
        heard.append([listener.messages() for listener in listeners])
        for listener in listeners:
            listener.close()
        one_by_one(monkeypatch)
    assert heard[0] == heard[1]
    events, wakes = heard[0]
    assert [event["id"] for [event] in events] == ["a", "b"]
    assert wakes == [2, 3]


def test_what_has_to_be_looked_at_is(opened: Opens) -> None:
    """A known id, one of what was purged, a queue with lines: all in the same call."""
    store = opened("looked-at")
    register(store)
    a, b = new("a", name="train", key="k"), new("b", name="train")
    store.submit([b])
    assert [answer.fresh for answer in store.submit([b])] == [False]
    apply(store, apply(store, take_one(store), Start(1)), Done())
    assert store.purge(["b"], ["complete"], store.now() + 1, 1) == ["b"]
    assert [answer.purged for answer in store.submit([b])] == [True]
    store.set_queue("q", key_limit=1)
    store.submit([a])
    assert [answer.fresh for answer in store.submit([new("c", name="train")])] == [True]
    assert ids(take(store, limit=5)) == ["a", "c"]
