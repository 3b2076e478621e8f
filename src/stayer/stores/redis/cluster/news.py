"""Hearing of things across shards: waiters on several queues, and the events of all in one order.

Nodes pass on to each other what is published, so one connection to any of them hears all wake-ups.
Events have a number in their shard. Whoever watches copies what is new in each shard into one
stream, where it gets the number that counts; nothing is copied while nobody watches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from stayer.core.model import Event
from stayer.stores.redis.cluster.shards import LOBBY, Shards
from stayer.stores.redis.keys import key
from stayer.stores.redis.record import Raw
from stayer.stores.redis.server import Call
from stayer.stores.redis.wake import Marks, RedisWaiter

_KEPT = 100_000
_AT_ONCE = 500
_LOOK = 0.25
"""How often a watcher looks at all shards, in seconds."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Event).decode


def waiter_for(
    shards: Shards, worker: str | None, queues: Sequence[str], homes: Sequence[str]
) -> RedisWaiter:
    """A waiter for queues and for a worker, for whom there may be orders in its homes."""
    wakes = {queue: _channel(shards, "wake", queue) for queue in dict.fromkeys(queues)}
    orders = {} if worker is None else {
        home: key("orders", shards.server_of(home).address.prefix, worker=worker)
        for home in (LOBBY, *homes)
    }  # fmt: skip

    def marks() -> Marks:
        numbers: dict[str, str | None] = {}
        for name in {**wakes, **orders}:
            asked = [name] if name in wakes else []
            of_worker, _, *of_queue = shards.server_of(name).run("mark", worker or "", *asked)
            if name in orders:
                numbers[orders[name]] = _text(of_worker)
            if name in wakes:
                numbers[wakes[name]] = _text(of_queue[0])
        return Marks(numbers, 0)

    return RedisWaiter(shards.server_of(LOBBY), [*wakes.values(), *orders.values()], marks)


def _channel(shards: Shards, name: str, queue: str) -> str:
    return key(name, shards.server_of(queue).address.prefix, queue=queue)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def watch(shards: Shards, since: int, timeout: float, limit: int) -> list[Event]:
    """Events after a number, waiting for the first one."""
    deadline = time.monotonic() + timeout
    while True:
        relay(shards)
        events = _after(shards, since, limit)
        left = deadline - time.monotonic()
        if events or left <= 0:
            return events
        time.sleep(min(left, _LOOK))


def last_event(shards: Shards) -> int:
    """The newest event's number, after all have got theirs."""
    relay(shards)
    return int(_relayed(shards).get("", 0))


def relay(shards: Shards) -> None:
    """Copy what is new in the shards."""
    relayed = _relayed(shards)
    for name in shards.names():
        seen, shard = int(relayed.get(name, 0)), shards.of(name)
        while True:
            events = shard.watch(seen, 0, _AT_ONCE)
            if not events:
                break
            up_to = events[-1].number
            if not _copied(shards, name, seen, up_to, events):
                break  # somebody else does it
            seen = up_to


def _copied(shards: Shards, queue: str, seen: int, up_to: int, events: Sequence[Event]) -> bool:
    given = (queue, seen, up_to, _KEPT, *map(_encode, events))
    name = key("news", shards.nodes.options.prefix)
    [answer] = shards.nodes.run_many([Call(name, "copy_news", given)])
    return bool(answer == 1)


def _relayed(shards: Shards) -> dict[str, str]:
    name = key("relayed", shards.nodes.options.prefix)
    cells = shards.nodes.ask(name, "HGETALL", name)
    return {
        field.decode(): value.decode() for field, value in zip(cells[::2], cells[1::2], strict=True)
    }


def _after(shards: Shards, since: int, limit: int) -> list[Event]:
    """Of tasks that are gone only their end is shown."""
    name = key("news", shards.nodes.options.prefix)
    while True:
        rows = shards.nodes.ask(name, "XRANGE", name, f"({since}-0", "+", "COUNT", limit)
        events = [_numbered(row) for row in rows]
        there = shards.there({event.id for event in events if event.id})
        shown = [
            event
            for event in events
            if not event.id or event.event == "deleted" or event.id in there
        ]
        if shown or len(rows) < limit or not rows:
            return shown
        since = events[-1].number


def _numbered(row: Raw) -> Event:
    number, (_, packed) = row
    return msgspec.structs.replace(_decode(packed), number=int(number.partition(b"-")[0]))
