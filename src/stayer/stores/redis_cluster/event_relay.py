"""Hearing of things across shards: waiters on several queues, and the events of all in one order.

What is published in a shard is heard at its node alone, so who listens has a connection to each
node that has something for him, and makes them anew when a slot moves or a node is replaced.

Events have a number in their shard. Whoever watches copies what is new in each shard into one
stream, where it gets the number that counts; nothing is copied while nobody watches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from redis.crc import key_slot

from stayer.core.decoding import msgpack_decoder
from stayer.core.errors import StoreError, StoreUnreachable
from stayer.core.model import Event
from stayer.stores.redis.connection.server import Call, Server
from stayer.stores.redis.errors import Moved
from stayer.stores.redis.keys import key
from stayer.stores.redis.pubsub import REPAIR_S, Ear, Line, Marks, RedisWaiter, subscribe
from stayer.stores.redis.record import Raw
from stayer.stores.redis_cluster import incoming
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.nodes import Nodes
from stayer.stores.redis_cluster.router import REGISTRY, Shards

_EVENTS_KEPT = 100_000
_EVENTS_A_STEP = 500
_REDIRECTS = 5
_RECONNECT_S = 0.5
"""Between two looks while nobody can be listened to, in seconds."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(Event).decode


def waiter_for(
    shards: Shards, worker: str | None, queues: Sequence[str], homes: Sequence[str]
) -> RedisWaiter:
    """Return a waiter for queues and for a worker, for whom there may be orders in its homes. Who
    takes tasks hears of what comes in from outside too.
    """
    wakes = {queue: _channel(shards, "wake", queue) for queue in dict.fromkeys(queues)}
    orders = {} if worker is None else {
        home: key("orders", shards.server_of(home).address.prefix, worker=worker)
        for home in (REGISTRY, *homes)
    }  # fmt: skip
    came_in = key("incoming", shards.nodes.options.prefix)

    def marks() -> Marks:
        names = list({**wakes, **orders})
        channels = [[name] if name in wakes else [] for name in names]
        calls = [
            shards.server_of(name).call("mark", worker or "", *of)
            for name, of in zip(names, channels, strict=True)
        ]
        numbers: dict[str, str | None] = {}
        answers = shards.nodes.try_many(calls)
        _refuse_if_all_are_away(answers)
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, StoreUnreachable):
                continue  # when it is back there is one more, which is news
            of_worker, _, _, *of_queue = answer
            if name in orders:
                numbers[orders[name]] = _text(of_worker)
            if name in wakes:
                numbers[wakes[name]] = _text(of_queue[0])
        came = FanOut(shards).attempt(partial(incoming.count_waiting, shards)) if wakes else 0
        return Marks(numbers, came or 0)

    sharded = [*wakes.values(), *orders.values(), *([came_in] if wakes else [])]
    plain = {came_in: [came_in, f"__keyspace@0__:{came_in}"]} if wakes else {}
    return RedisWaiter(partial(lines, shards.nodes, sharded, plain), marks)


def lines(nodes: Nodes, sharded: Sequence[str], plain: Mapping[str, Sequence[str]]) -> list[Line]:
    """Connections to the nodes of these channels. Of the plain ones it is said which key's node
    hears them, too: what somebody publishes anywhere, and what the node tells of the key. Nodes
    that are away are left out, unless all are.
    """
    for _ in range(_REDIRECTS):
        opened: list[Line] = []
        away: list[StoreUnreachable] = []
        try:
            for server, questions in _questions(nodes, sharded, plain, away).items():
                try:
                    opened.append(subscribe(server, questions))
                except StoreUnreachable as error:
                    nodes.forget()  # another one may have taken its place
                    away.append(error)
        except StoreError as error:
            for line in opened:
                line.close()
            nodes.forget()
            if not isinstance(error, Moved):
                raise
            continue
        if away and not opened:
            raise away[0]
        return opened
    raise StoreUnreachable(f"{nodes.url}: its nodes send from one to the other: try again")


def _questions(
    nodes: Nodes,
    sharded: Sequence[str],
    plain: Mapping[str, Sequence[str]],
    away: list[StoreUnreachable],
) -> dict[Server, list[Sequence[str]]]:
    """Return what each node is to be asked; and for which there is none."""
    questions: dict[Server, list[Sequence[str]]] = {}
    wanted = [(slot[0], ("SSUBSCRIBE", *slot)) for slot in _by_slot(sharded)]
    wanted += [(place, ("SUBSCRIBE", *channels)) for place, channels in plain.items()]
    for place, question in wanted:
        try:
            questions.setdefault(nodes.server_of(place), []).append(question)
        except StoreUnreachable as error:
            away.append(error)
    return questions


def _refuse_if_all_are_away(answers: Sequence[object]) -> None:
    away = [answer for answer in answers if isinstance(answer, StoreUnreachable)]
    if away and len(away) == len(answers):
        raise away[0]


def _by_slot(channels: Sequence[str]) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for channel in channels:
        groups.setdefault(key_slot(channel.encode()), []).append(channel)
    return list(groups.values())


def _channel(shards: Shards, name: str, queue: str) -> str:
    return key(name, shards.server_of(queue).address.prefix, queue=queue)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def watch(shards: Shards, since: int, timeout: float, limit: int) -> list[Event]:
    """Events after a number, waiting for the first one."""
    deadline = time.monotonic() + timeout
    ear: Ear | None = None
    try:
        while True:
            relay(shards)
            events = _after(shards, since, limit)
            left = deadline - time.monotonic()
            if events or left <= 0:
                return events
            try:
                if ear is None:
                    # Listens before it looks once more, so that nothing falls between.
                    ear = Ear(partial(_lines_for_events, shards))
                elif not ear.is_connected or _listen(shards, ear, min(left, REPAIR_S)):
                    ear.connect()
            except StoreUnreachable:
                # While a part of the store is away, the rest is looked at now and then.
                time.sleep(min(left, _RECONNECT_S))
    finally:
        if ear is not None:
            ear.close()


def _listen(shards: Shards, ear: Ear, timeout: float) -> bool:
    """Listen until there may be events; return whether there are more queues to be listened to."""
    try:
        messages = ear.listen(timeout) or []
    except StoreUnreachable:
        return True
    news = key("shards", shards.nodes.options.prefix)
    return any(channel == news for channel, _ in messages)


def _lines_for_events(shards: Shards) -> list[Line]:
    """Subscribe to the events of all shards, and of others that may come."""
    names = (REGISTRY, *shards.names())
    found = [key("events", shards.server_of(name).address.prefix) for name in names]
    return lines(shards.nodes, [key("shards", shards.nodes.options.prefix), *found], {})


def last_event(shards: Shards) -> int:
    """Return the newest event's number, after all have got theirs."""
    relay(shards)
    return _last(shards)


def relay(shards: Shards) -> None:
    """Copy what is new in the shards that can be reached."""
    relayed = {name: int(number) for name, number in _read_relayed(shards).items()}
    # In the registry shard are the events of no queue: that a worker was lost.
    fan_out, names = FanOut(shards), [REGISTRY, *shards.names()]
    questions = [("watch", relayed.get(name, 0), 1, _EVENTS_A_STEP) for name in names]
    calls = [
        shards.server_of(name).call(*each) for name, each in zip(names, questions, strict=True)
    ]
    answers = fan_out.attempt(partial(shards.nodes.run_many, calls))
    if answers is None:
        answers = [
            fan_out.at(name, partial(shards.server_of(name).run, *each))
            for name, each in zip(names, questions, strict=True)
        ]
    for name, answer in zip(names, answers, strict=True):
        if answer is not None and int(answer[0]) > relayed.get(name, 0):
            fan_out.at(name, partial(_relay, shards, name, relayed.get(name, 0)))
    fan_out.check()


def _relay(shards: Shards, name: str, seen: int) -> None:
    while True:
        events = shards.of(name).watch(seen, 0, _EVENTS_A_STEP)
        if not events:
            break
        up_to = events[-1].number
        if not _copy_events(shards, name, seen, up_to, events):
            break  # somebody else does it
        seen = up_to


def _copy_events(
    shards: Shards, queue: str, seen: int, up_to: int, events: Sequence[Event]
) -> bool:
    given = (queue, seen, up_to, _EVENTS_KEPT, *map(_encode, events))
    name = key("news", shards.nodes.options.prefix)
    [answer] = shards.nodes.run_many([Call(name, "copy_news", given)])
    return bool(answer == 1)


def _read_relayed(shards: Shards) -> dict[str, str]:
    name = key("relayed", shards.nodes.options.prefix)
    cells = shards.nodes.ask(name, "HGETALL", name)
    return {
        field.decode(): value.decode() for field, value in zip(cells[::2], cells[1::2], strict=True)
    }


def _last(shards: Shards) -> int:
    """Return the newest event's number; where that is not noted, the stream tells it."""
    if (number := _read_relayed(shards).get("")) is not None:
        return int(number)
    name = key("news", shards.nodes.options.prefix)
    rows = shards.nodes.ask(name, "XREVRANGE", name, "+", "-", "COUNT", 1)
    return _decode_numbered(rows[0]).number if rows else 0


def _after(shards: Shards, since: int, limit: int) -> list[Event]:
    """Read the events after this one. Of tasks that are gone only their end is shown. What is
    beyond the last one is not ours.
    """
    name = key("news", shards.nodes.options.prefix)
    last = _last(shards)
    while True:
        rows = shards.nodes.ask(name, "XRANGE", name, f"({since}-0", last, "COUNT", limit)
        events = [_decode_numbered(row) for row in rows]
        there = shards.there({event.id for event in events if event.id})
        shown = [
            event
            for event in events
            if not event.id or event.event == "deleted" or event.id in there
        ]
        if shown or len(rows) < limit or not rows:
            return shown
        since = events[-1].number


def _decode_numbered(row: Raw) -> Event:
    number, (_, packed) = row
    return msgspec.structs.replace(_decode(packed), number=int(number.partition(b"-")[0]))
