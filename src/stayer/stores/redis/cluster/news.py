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
from stayer.stores.redis.cluster.shards import Shards
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


def waiter_for(shards: Shards, worker: str | None, queues: Sequence[str]) -> RedisWaiter:
    """A waiter for queues and a worker, of which any of its shards may have news."""
    names = list(dict.fromkeys(queues))
    channels = {
        queue: _channels(shards.server_of(queue).address.prefix, queue, worker) for queue in names
    }

    def marks() -> Marks:
        numbers: dict[str, str | None] = {}
        for queue in names:
            of_worker, _, *of_queue = shards.server_of(queue).run("mark", worker or "", queue)
            told = [*of_queue, *([] if worker is None else [of_worker])]
            said = [None if each is None else each.decode() for each in told]
            numbers |= zip(channels[queue], said, strict=True)
        return Marks(numbers, 0)

    listened = [channel for queue in names for channel in channels[queue]]
    return RedisWaiter(shards.server_of(names[0] if names else "default"), listened, marks)


def _channels(prefix: str, queue: str, worker: str | None) -> list[str]:
    found = [key("wake", prefix, queue=queue)]
    return found if worker is None else [*found, key("orders", prefix, worker=worker)]


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
    [answer] = shards.nodes.run_many([Call(name, "relay", given)])
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
