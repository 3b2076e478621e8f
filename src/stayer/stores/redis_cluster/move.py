"""`Store.dump`, `load` and `put_seal` on a cluster: shard by shard, and what is told across them.

The registry shard bears the mark first and loses it last. Whoever makes a queue looks at it after
having written the name down: so a queue is either sealed with the others, or not made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from stayer.core.move.records import (
    Batch,
    Counters,
    FiguresCopy,
    FileCopy,
    FlowCopy,
    PurgedCopy,
    QueueCopy,
    Record,
    Seal,
    Stage,
    TaskCopy,
    TiesCopy,
)
from stayer.core.schedules.model import Schedule
from stayer.stores.redis import dump as shard_dump
from stayer.stores.redis import load as shard_load
from stayer.stores.redis import reads, sealing
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.dump import MOST, by_queue, figures, purged_copy
from stayer.stores.redis.keys import escape_pattern, key
from stayer.stores.redis_cluster import cross_shard, event_relay, merged_reads
from stayer.stores.redis_cluster import schedules as schedule_calls
from stayer.stores.redis_cluster.router import REGISTRY, Shards
from stayer.stores.redis_cluster.shard import Shard

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_FIRST = "-"
_SCANNED = 2000


def seal(shards: Shards) -> Seal | None:
    """The mark that is there."""
    return sealing.seal(shards.server_of(REGISTRY))


def put_seal(shards: Shards, seal: Seal | None) -> None:
    """Put it on all shards, or take it from all."""
    registry = shards.server_of(REGISTRY)
    if seal is not None:
        sealing.put_seal(registry, seal)
    for name in shards.names():
        sealing.put_seal(shards.server_of(name), seal)
    if seal is None:
        sealing.put_seal(registry, None)


# Reading


def dump(shards: Shards, stage: Stage, cursor: str | None, limit: int) -> Batch:
    """Some records of a stage."""
    place: list[Any] = [] if cursor is None else _decode(cursor)
    at, names = shards.server_of, shards.names()
    match stage:
        case "counters":
            return Batch((_counters(shards, names),))
        case "queues":
            found = [
                shard_dump.queue(at(name), name)
                for name in names
                if name in shard_dump.names(at(name))
            ]
            return Batch(tuple(found))
        case "tasks":
            return by_queue(
                names, place, lambda name, behind: shard_dump.tasks(at(name), name, behind, limit)
            )
        case "logs" | "usage" | "checkpoints" | "ties":
            return by_queue(
                names,
                place,
                lambda name, behind: shard_dump.dump_beside_tasks(
                    at(name), stage, name, behind, limit
                ),
            )
        case "flows":
            return _merged(shards, names, place, shard_dump.flow_places)
        case "notices":
            return _merged(shards, names, place, shard_dump.notice_places)
        case "schedules":
            return Batch(tuple(schedule_calls.schedules(shards)))
        case "files":
            return shard_dump.dump(at(REGISTRY), stage, cursor, limit)
        case "purged":
            return _purged(shards, place)
        case "figures":
            read = merged_reads.figures
            return figures(
                place,
                lambda step, since, until: [
                    *read(shards, since, until, step, []),
                    *read(shards, since, until, step, None),
                ],
                shards.now(),
            )


def _counters(shards: Shards, names: Sequence[str]) -> Counters:
    """The numbers of the shards count, too: histories have those."""
    [known] = shard_dump.dump(shards.server_of(REGISTRY), "counters", None, 1).records
    assert isinstance(known, Counters)
    numbers = [reads.last_event(shards.server_of(name)) for name in names]
    last = max(known.last_event, event_relay.last_event(shards), *numbers, 0)
    return replace(known, last_event=last)


_Places = Callable[[Server, str, int], list[tuple[str, Record | None]]]


def _merged(shards: Shards, names: Sequence[str], place: Sequence[Any], read: _Places) -> Batch:
    """A page of what all shards have in the same order; each once, though several have it."""
    found: dict[str, Record | None] = {}
    for name in names:
        found |= read(shards.server_of(name), place[0] if place else _FIRST, MOST)
    return shard_dump.make_page(sorted(found.items())[:MOST], MOST)


def _purged(shards: Shards, place: Sequence[Any]) -> Batch:
    """Node by node: their keys are found by looking at all."""
    number, cursor = place or (0, "0")
    nodes = sorted(shards.nodes.primaries(), key=lambda node: node.address.url)
    node, prefix = nodes[number], shards.nodes.options.prefix.encode()
    pattern = escape_pattern(prefix + b":{") + b"*" + escape_pattern(b"}:purged:") + b"*"
    following, names = node.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED)
    stored = node.ask_many([("GET", name) for name in names])
    records = [
        purged_copy(name.partition(b"}:purged:")[2].decode(), value)
        for name, value in zip(names, stored, strict=True)
        if value is not None
    ]
    if following != b"0":
        return Batch(tuple(records), _encode([number, following.decode()]).decode())
    more = number + 1 < len(nodes)
    return Batch(tuple(records), _encode([number + 1, "0"]).decode() if more else None)


# Writing


def load(shards: Shards, records: Sequence[Record], progress: str) -> None:
    """Enter records of one stage, each in the shard of its queue."""
    if records and isinstance(records[0], Counters):
        _load_counters(shards, records[0])
    elif records and isinstance(records[0], FlowCopy):
        for each in cast(Any, records):
            _load_flow(shards, each)
    else:
        groups: dict[str, list[Record]] = {}
        for record in records:
            groups.setdefault(_home(record), []).append(record)
        _prepare(shards, [name for name in groups if name != REGISTRY])
        for name, group in groups.items():
            shard_load.load(shards.server_of(name), group)
            _tell_others(shards, name, group)
    sealing.note_progress(shards.server_of(REGISTRY), progress)


def _home(record: Any) -> str:
    """The queue in whose shard it is."""
    match record:
        case QueueCopy():
            return record.name
        case TaskCopy():
            return record.task.queue
        case Schedule():
            return record.task.queue
        case FiguresCopy():
            return record.figures.queue or REGISTRY
        case FileCopy():
            return REGISTRY
        case _:
            return str(record.queue)


def _prepare(shards: Shards, names: Sequence[str]) -> None:
    """Make sure that these are known, sealed, and count on from where the source was."""
    missing = [name for name in names if name not in shards.sealed]
    if not missing:
        return
    registry = shards.server_of(REGISTRY)
    mark, [known] = seal(shards), shard_dump.dump(registry, "counters", None, 1).records
    assert isinstance(known, Counters)
    shards.add(missing, is_sealed=True)
    for name in missing:
        server = shards.server_of(name)
        sealing.put_seal(server, mark)
        shard_load.load_counters(server, replace(known, shared={}))
        _relayed(shards, name, known.last_event)
        shards.sealed.add(name)


def _load_counters(shards: Shards, counters: Counters) -> None:
    shard_load.load_counters(shards.server_of(REGISTRY), counters)
    _relayed(shards, "", counters.last_event)


def _relayed(shards: Shards, queue: str, number: int) -> None:
    """Nothing up to this number is there to be copied for those who watch."""
    place = key("relayed", shards.nodes.options.prefix)
    shards.nodes.ask(place, "HSET", place, queue, number)


def _load_flow(shards: Shards, copy: FlowCopy) -> None:
    """Where some of its tasks are."""
    for name in {part.queue for part in copy.parts} & set(shards.names()):
        server: Shard = shards.server_of(name)
        if server.ask("EXISTS", key("members", server.address.prefix, flow=copy.id)):
            shard_load.load(server, [copy])


def _tell_others(shards: Shards, queue: str, group: Sequence[Record]) -> None:
    """Claim ids for the queue; and let it hear of what its tasks wait for, or need, elsewhere."""
    match group[0]:
        case TaskCopy():
            shards.claims.claim_for(queue, [each.task.id for each in cast(Any, group)])
        case PurgedCopy():
            claims = shards.claims.claim_for(queue, [each.id for each in cast(Any, group)])
            shards.claims.expire(claims)
        case TiesCopy():
            wanted = [
                (queue, [tie.id for tie in (*each.upstreams, *each.waits)])
                for each in cast(Any, group)
                if not each.is_over
            ]
            cross_shard.listen(shards, wanted, {})
        case _:
            pass
