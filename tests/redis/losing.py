"""Short ways to take things away from a server, and to see what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stayer.core.model import Filter, Task
from stayer.stores.redis import RedisStore
from tests.contract.builders import Clock, check_counts, happened


def key(store: RedisStore, name: str) -> str:
    return f"{store._server.address.prefix}:{name}"


def lose(store: RedisStore, *ids: str, of: str = "task") -> None:
    for id in ids:
        assert store._server.ask("DEL", key(store, f"{of}:{id}")) == 1


def tidy(store: RedisStore) -> None:
    """Let time pass as workers do, until there is nothing left to be seen to."""
    while store.promote(100) == 0.0:
        pass


def sweep(store: RedisStore, clock: Clock) -> None:
    """What a minute does."""
    clock.advance(61)
    store.sample()
    tidy(store)


def left_of(store: RedisStore, id: str) -> list[str]:
    """The keys in which something of the task is left."""
    found = []
    ask = store._server.ask
    reads: dict[bytes, Callable[[str], Any]] = {
        b"string": lambda name: [],
        b"stream": lambda name: [],
        b"list": lambda name: ask("LRANGE", name, 0, -1),
        b"set": lambda name: ask("SMEMBERS", name),
        b"zset": lambda name: ask("ZRANGE", name, 0, -1),
        b"hash": lambda name: ask("HGETALL", name),
    }
    for name in map(bytes.decode, ask("KEYS", key(store, "*"))):
        # The notes of what lost workers ran, in `meta`, are no part of the task.
        if name.endswith((":missing", ":meta", f":purged:{id}")) or (
            ":upstreams:" in name and not name.endswith(id)  # as of what was deleted
        ):
            continue
        if f":{id}" in name or any(id.encode() in each for each in reads[ask("TYPE", name)](name)):
            found.append(name)
    return found


def told_missing(store: RedisStore) -> list[tuple[str, str | None]]:
    rows = [
        msgspec.json.decode(row)
        for row in store._server.ask("LRANGE", key(store, "missing"), 0, -1)
    ]
    return [(row["id"], row["state"]) for row in reversed(rows)]


def listed(store: RedisStore) -> list[Task]:
    return list(store.find(Filter(queues=("q",)), None, 99).tasks)


def is_lost(store: RedisStore, id: str, state: str) -> None:
    """All of it is gone, all say so, and the counts are right."""
    assert left_of(store, id) == []
    assert told_missing(store) == [(id, state)]
    assert happened([each for each in store.watch(0, 0, 10_000) if each.id == id]) == ["deleted"]
    check_counts(store)
