"""`Store.load` on a server: one that stands alone, or a shard of a cluster.

What is loaded beside tasks is written by plain commands, each of which may be done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from stayer.core import codec
from stayer.core.insight.queue_stats import COUNTED, KEPT, MEASURED
from stayer.core.model import Statistics, Usage
from stayer.core.move.records import (
    CheckpointCopy,
    Counters,
    FiguresCopy,
    FileCopy,
    FlowCopy,
    LogCopy,
    PurgedCopy,
    QueueCopy,
    Record,
    TaskCopy,
    TiesCopy,
    UsageCopy,
)
from stayer.core.notify.notices import Notice, hook_name
from stayer.core.schedules.model import Schedule
from stayer.store import REMEMBERED
from stayer.stores.redis import notices, record, schedules, sealing
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.whole_task import pack_copy

_encode = msgspec.json.Encoder().encode
Command = tuple[Any, ...]


def load(server: Server, records: Sequence[Record]) -> None:
    """Enter records of one stage."""
    if not records:
        return
    kind = type(records[0])
    if kind is TaskCopy:
        load_tasks(server, cast(Any, records))
    elif kind is TiesCopy:
        load_ties(server, cast(Any, records))
    elif kind is Counters:
        load_counters(server, cast(Any, records[0]))
    else:
        now, prefix = server.now(), server.address.prefix
        write = _WRITERS[kind]
        server.change_many([each for one in records for each in write(one, prefix, now)])


def load_tasks(server: Server, records: Sequence[TaskCopy]) -> None:
    """In one step, with all indexes."""
    arguments = Arguments(fixed=3)

    def optional(value: str | bytes | None) -> int | bool:
        return False if value is None else arguments.add(value)

    given = []
    for each in map(pack_copy, records):
        parts = [[arguments.add(part) for part in of] for of in (each.head, each.tail)]
        apart = optional(each.parameters), optional(each.result)
        given.append((arguments.add(each.value), *apart, *parts))
    server.run("load_tasks", record.pack(given), *arguments.values)


def load_ties(server: Server, records: Sequence[TiesCopy]) -> None:
    """In one step; what waits for what has ended will hear of it."""
    given = [
        (
            each.task,
            [("b" if tie.anyhow else "a") + tie.id for tie in each.upstreams],
            [word for tie in each.waits for word in (tie.id, "b" if tie.anyhow else "a")],
        )
        for each in records
    ]
    server.run("load_ties", record.pack(given))


def load_counters(server: Server, counters: Counters) -> None:
    """Numbers of events go on from here."""
    sealing.put_seal(server, sealing.seal(server), counters.last_event)
    if counters.sampled is not None:
        server.ask("HSET", key("meta", server.address.prefix), "sampled", counters.sampled)
    for name, value in counters.shared.items():
        server.ask("HSET", key("meta", server.address.prefix), name, value)


def _exact(value: float) -> str:
    return repr(float(value))


def _pairs(fields: dict[str, Any]) -> list[Any]:
    """Fields and values of a hash, without what is not there."""
    return [word for pair in fields.items() if pair[1] is not None for word in pair]


def _number(value: float | None) -> str | None:
    return None if value is None else _exact(value)


def _write_queue(copy: QueueCopy, prefix: str, _: float) -> Iterator[Command]:
    place, rate = key("queue", prefix, queue=copy.name), copy.rate
    is_lined = copy.key_limit is not None or copy.fair is not None or copy.key_limits
    settings = {
        "paused": int(copy.paused), "limit": copy.limit, "key_limit": copy.key_limit,
        "fair": copy.fair, "notify": "\n".join(copy.notify) or None,
        "defaults": copy.defaults or None,
        "rate": rate and rate.count, "rate_per": rate and _exact(rate.per),
        "tokens": _number(copy.tokens), "tokens_at": _number(copy.tokens_at),
        "lined": 1 if is_lined else None, "logs_gone": _exact(copy.logs_gone),
        "results_gone": _exact(copy.results_gone),
        **{f"keep_{what}": _exact(seconds) for what, seconds in copy.retention.items()},
    }  # fmt: skip
    yield "SADD", key("queues", prefix), copy.name
    yield "HSET", place, *_pairs(settings)
    if rate is not None:
        yield "SADD", key("rated", prefix), copy.name
    if copy.key_limits:
        yield "HSET", key("key_limits", prefix, queue=copy.name), *_pairs(copy.key_limits)
    if copy.shares:
        used = {share: " ".join(map(_exact, of)) for share, of in copy.shares.items()}
        yield "HSET", key("shares", prefix, queue=copy.name), *_pairs(used)


def _write_log(copy: LogCopy, prefix: str, _: float) -> Iterator[Command]:
    place = key("log", prefix, attempt=str(copy.attempt), id=copy.task)
    yield "ZADD", place, copy.start, f"{copy.start}:{_exact(copy.at)}:".encode() + copy.data


def _write_usage(copy: UsageCopy, prefix: str, _: float) -> Iterator[Command]:
    place = key("usage", prefix, attempt=str(copy.attempt), id=copy.task)
    yield "HSET", place, copy.slot, _dated(copy.statistics or copy.usage)


def _dated(kept: Usage | Statistics) -> str:
    return f"{kept.at or 0.0!r} {_encode(kept).decode()}"


def _write_checkpoint(copy: CheckpointCopy, prefix: str, _: float) -> Iterator[Command]:
    saved = {"attempt": copy.attempt, "at": _exact(copy.at), "data": copy.data}
    yield "HSET", key("checkpoint", prefix, id=copy.task), *_pairs(saved)


def _write_flow(copy: FlowCopy, prefix: str, _: float) -> Iterator[Command]:
    micros = int(copy.created * 1000000 + 0.5)
    about = {
        "created": copy.created, "micros": micros, "name": copy.name, "owner": copy.owner,
        "parts": copy.parts,
    }  # fmt: skip
    yield "SET", key("flow", prefix, flow=copy.id), _encode(about)
    yield "ZADD", key("flows", prefix), 0, f"{micros:016d}{copy.id}"


def _write_schedule(copy: Schedule, prefix: str, _: float) -> Iterator[Command]:
    fields = {
        **schedules.fields(copy), "created": _exact(copy.created), "updated": _exact(copy.updated),
        "last": _number(copy.last), "last_task": copy.last_task,
        "waiting": "1" if copy.waiting else None,
    }  # fmt: skip
    place = key("schedule", prefix, name=copy.name)
    yield "HSET", place, *_pairs({name: value or None for name, value in fields.items()})
    at = "inf" if copy.paused or copy.next is None else _exact(copy.next)
    yield "ZADD", key("schedules", prefix), at, copy.name
    if copy.last_task is not None:
        yield "SADD", key("newest", prefix), copy.last_task


def _write_notice(copy: Notice, prefix: str, _: float) -> Iterator[Command]:
    place = notices.place(copy)
    fields = {
        "task": copy.task, "queue": copy.queue, "event": copy.event, "to": copy.to,
        "attempt": copy.attempt, "at": _exact(copy.at), "state": copy.state, "tries": copy.tries,
        "forgiven": copy.forgiven, "since": _number(copy.since), "next": _number(copy.next),
        "said": copy.said, "shown": codec.encode(copy.record),
    }  # fmt: skip
    yield "HSET", key("notice", prefix, notice=copy.id), *_pairs(fields)
    yield "ZADD", key("notices", prefix, state=copy.state), 0, place
    yield "ZADD", key("notices_of", prefix, id=copy.task), 0, place
    if copy.state == "pending" and copy.next is not None:
        due = key("notices_due", prefix, hook=hook_name(copy.to))
        yield "ZADD", due, _exact(copy.next), copy.id


def _write_file(copy: FileCopy, prefix: str, _: float) -> Iterator[Command]:
    yield "SET", key("file", prefix, sha256=copy.sha256), copy.data
    yield "ZADD", key("files", prefix), _exact(copy.at), copy.sha256


def _write_purged(copy: PurgedCopy, prefix: str, now: float) -> Iterator[Command]:
    left = int(copy.at + REMEMBERED - now)
    if left > 0:
        said = record.pack((copy.queue, copy.state, copy.created, copy.finished_at, copy.at))
        yield "SET", key("purged", prefix, id=copy.id), said, "EX", left


def _write_figures(copy: FiguresCopy, prefix: str, now: float) -> Iterator[Command]:
    step, point = copy.step, copy.figures
    left = int(point.at + step + KEPT[step] - now)
    if left > 0:
        place = key("figures", prefix, step=str(step), at=f"{point.at:.0f}")
        values = [getattr(point, name) for name in (*MEASURED, *COUNTED)]
        words = ["-" if value is None else repr(value) for value in values]
        yield "HSET", place, point.queue, " ".join(words)
        yield "EXPIRE", place, left


_WRITERS: dict[type, Callable[[Any, str, float], Iterator[Command]]] = {
    QueueCopy: _write_queue,
    LogCopy: _write_log,
    UsageCopy: _write_usage,
    CheckpointCopy: _write_checkpoint,
    FlowCopy: _write_flow,
    Schedule: _write_schedule,
    Notice: _write_notice,
    PurgedCopy: _write_purged,
    FiguresCopy: _write_figures,
    FileCopy: _write_file,
}
