"""`Store.dump`, `load` and `put_seal` on a server: one that stands alone, or a shard of a cluster.

A cursor is JSON: the queue, and where in it to go on. What is loaded beside tasks is written by
plain commands, each of which may be done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from stayer.core import codec
from stayer.core.decoding import json_decoder
from stayer.core.insight.queue_stats import COUNTED, KEPT, MEASURED, Figures
from stayer.core.insight.usage_series import STATISTICS
from stayer.core.model import Statistics, Usage
from stayer.core.move.records import (
    Batch,
    CheckpointCopy,
    Counters,
    FiguresCopy,
    FileCopy,
    FlowCopy,
    LogCopy,
    PurgedCopy,
    QueueCopy,
    Record,
    Seal,
    Stage,
    TaskCopy,
    Tie,
    TiesCopy,
    UsageCopy,
)
from stayer.core.notify.notices import Notice, hook_name
from stayer.core.queue_model import Rate
from stayer.core.schedules.model import Schedule
from stayer.store import REMEMBERED
from stayer.store.base import MOVED_WITH_A_STORE
from stayer.stores.redis import flows, leases, notices, queue_stats, reads, record, schedules
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import escaped, key
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.whole_task import packed, unpacked
from stayer.stores.redis.record import Raw

MOST = 500
"""How many tasks, flows or notices a batch has at most."""
_STRETCHES = 500
_SCANNED = 2000
"""How many keys are looked at in one step."""
_ALL = "-"
"""The bound before all members of a sorted set."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_seal = json_decoder(Seal).decode
_usage = msgspec.json.Encoder().encode
Command = tuple[Any, ...]


def seal(server: Server) -> Seal | None:
    """The mark that is there."""
    stored = server.ask("HGET", key("meta", server.address.prefix), "seal")
    return None if stored is None else _seal(stored)


def put_seal(server: Server, seal: Seal | None, number: int = 0) -> None:
    """Put it there, or take it away; numbers of events go on at least from the one given."""
    if seal is None:
        server.run("put_seal", "", "", number)
    else:
        server.run("put_seal", _encode(seal), seal.message, number)


def advanced(server: Server, progress: str) -> None:
    """Note how far a move into the store has come."""
    if (known := seal(server)) is not None:
        put_seal(server, replace(known, progress=progress))


# Reading


def dump(server: Server, stage: Stage, cursor: str | None, limit: int) -> Batch:
    """Some records of a stage."""
    place: list[Any] = [] if cursor is None else _decode(cursor)
    match stage:
        case "counters":
            sampled = server.ask("HGET", key("meta", server.address.prefix), "sampled")
            last, until = reads.last_event(server), None if sampled is None else int(float(sampled))
            counters = Counters(
                last_event=last,
                sampled=until,
                shared={
                    name: value
                    for name in MOVED_WITH_A_STORE
                    if (value := leases.shared(server, name)) is not None
                },
            )
            return Batch((counters,))
        case "queues":
            return Batch(tuple(queue(server, name) for name in names(server)))
        case "tasks":
            return by_queue(names(server), place, lambda name, at: tasks(server, name, at, limit))
        case "logs" | "usage" | "checkpoints" | "ties":
            return by_queue(
                names(server), place, lambda name, at: kept(server, stage, name, at, limit)
            )
        case "flows":
            found = flow_places(server, place[0] if place else _ALL, MOST)
            return paged(found, MOST)
        case "schedules":
            return Batch(tuple(schedules.schedules(server)))
        case "notices":
            found = notice_places(server, place[0] if place else _ALL, MOST)
            return paged(found, MOST)
        case "files":
            return files(server, place[0] if place else _ALL)
        case "purged":
            return purged(server, place)
        case "figures":
            return figures(place, lambda *stretch: _figures(server, *stretch), server.now())


def names(server: Server) -> list[str]:
    """All queues, in the order in which they are dumped."""
    found = server.ask("SMEMBERS", key("queues", server.address.prefix))
    return sorted(name.decode() for name in found)


def by_queue(
    queues: Sequence[str],
    place: Sequence[Any],
    read: Callable[[str, list[Any]], tuple[list[Any], Sequence[Record]]],
) -> Batch:
    """What is read of one queue after the other; `place` is the queue, and where in it."""
    following = list(queues)
    at: list[Any] = []
    if place:
        following = [name for name in queues if name >= place[0]]
        at = list(place[1:]) if following and following[0] == place[0] else []
    for number, name in enumerate(following):
        more, records = read(name, at)
        if more:
            return Batch(tuple(records), _encode([name, *more]).decode())
        if records:
            rest = following[number + 1 : number + 2]
            return Batch(tuple(records), _encode(rest).decode() if rest else None)
        at = []
    return Batch()


def paged(found: Sequence[tuple[str, Record | None]], limit: int) -> Batch:
    """A page of what was found, with its places; there may be more if it is full."""
    records = tuple(record for _, record in found if record is not None)
    more = _encode([f"({found[-1][0]}"]).decode() if len(found) == limit else None
    return Batch(records, more)


def queue(server: Server, name: str) -> QueueCopy:
    """One, with its settings."""
    settings, key_limits, shares = map(_hash, server.run("dump_queue", name))

    def number(field: str) -> float | None:
        return float(settings[field]) if field in settings else None

    def whole(field: str) -> int | None:
        return int(settings[field]) if field in settings else None

    rate, per = whole("rate"), number("rate_per")
    used = {share: tuple(map(float, text.split(" "))) for share, text in shares.items()}
    return QueueCopy(
        name=name,
        paused=settings.get("paused") == "1",
        limit=whole("limit"),
        key_limit=whole("key_limit"),
        key_limits={each: int(limit) for each, limit in key_limits.items()},
        rate=None if rate is None or per is None else Rate(rate, per),
        tokens=number("tokens"),
        tokens_at=number("tokens_at"),
        fair=cast(Any, settings.get("fair")),
        retention={
            cast(Any, field.removeprefix("keep_")): float(seconds)
            for field, seconds in settings.items()
            if field.startswith("keep_")
        },
        notify=tuple(settings["notify"].split("\n")) if "notify" in settings else (),
        defaults=settings.get("defaults", ""),
        logs_gone=number("logs_gone") or 0.0,
        results_gone=number("results_gone") or 0.0,
        shares=cast(Any, used),
    )


def _hash(pairs: Sequence[bytes]) -> dict[str, str]:
    cells = [cell.decode() for cell in pairs]
    return dict(zip(cells[::2], cells[1::2], strict=True))


def tasks(
    server: Server, name: str, place: Sequence[Any], limit: int
) -> tuple[list[Any], list[Record]]:
    """Some of a queue; where to go on, if there are more."""
    bound, *rows = server.run("dump_tasks", name, *(place or (_ALL,)), limit, MOST)
    found: list[Record] = [unpacked(row[0], row[1], row[2], [*row[3], *row[4]]) for row in rows]
    return [bound.decode()] if bound else [], found


def kept(
    server: Server, stage: Stage, name: str, place: Sequence[Any], limit: int
) -> tuple[list[Any], list[Record]]:
    """Some of what is kept beside the tasks of a queue; where to go on, if there is more."""
    at = place or (_ALL, "0", "-1")
    *more, rows = _split(server.run("dump_kept", name, stage, *at, limit, MOST))
    found = [each for row in rows for each in _kept(stage, name, row)]
    return [word.decode() for word in more] if more[0] else [], found


def _split(answer: Sequence[Raw]) -> tuple[Raw, ...]:
    return (*answer[:3], answer[3:])


def _kept(stage: Stage, queue: str, row: Sequence[Raw]) -> Iterator[Record]:
    id = row[0].decode()
    match stage:
        case "logs":
            attempt, start, at, data = row[1:]
            yield LogCopy(
                queue=queue, task=id, attempt=int(attempt), start=int(start), at=float(at),
                data=data,
            )  # fmt: skip
        case "checkpoints":
            attempt, at, data = row[1:]
            yield CheckpointCopy(
                queue=queue, task=id, attempt=int(attempt), at=float(at), data=data
            )
        case "usage":
            attempt, points = row[1:]
            for slot, text in sorted(zip(points[::2], points[1::2], strict=True)):
                own = record.statistics(text) if int(slot) == STATISTICS else None
                yield UsageCopy(
                    queue=queue, task=id, attempt=int(attempt), slot=int(slot),
                    usage=record.usage(text) if own is None else Usage(), statistics=own,
                )  # fmt: skip
        case _:
            is_over, upstreams, waits = row[1:]
            waited_for = sorted(_hash(waits).items())
            yield TiesCopy(
                queue=queue, task=id, is_over=is_over == 1,
                upstreams=tuple(Tie(each[1:].decode(), each[:1] == b"b") for each in upstreams),
                waits=tuple(Tie(each, kind == "b") for each, kind in waited_for),
            )  # fmt: skip


def flow_places(server: Server, bound: str, limit: int) -> list[tuple[str, Record | None]]:
    """Flows with their places, oldest first."""
    rows = server.run("dump_flows", bound, limit)
    return [
        (place.decode(), None if stored is None else _flow(place.decode()[16:], stored))
        for place, stored in zip(rows[::2], rows[1::2], strict=True)
    ]


def _flow(id: str, stored: bytes) -> FlowCopy:
    about = flows.about(stored)
    return FlowCopy(
        id=id, name=about.name, owner=about.owner, created=about.created, parts=about.parts
    )


def notice_places(server: Server, bound: str, limit: int) -> list[tuple[str, Record | None]]:
    """Notices with their places, oldest first."""
    rows = server.run("dump_notices", bound, limit)
    return [
        (place.decode(), notices.read(place[16:], pairs) if pairs else None)
        for place, pairs in zip(rows[::2], rows[1::2], strict=True)
    ]


def files(server: Server, bound: str) -> Batch:
    """One of those that came along with tasks: they may be large."""
    places = key("files", server.address.prefix)
    names = sorted(each.decode() for each in server.ask("ZRANGE", places, 0, -1))
    following = [name for name in names if bound == _ALL or name > bound]
    for name in following:
        place = key("file", server.address.prefix, sha256=name)
        data, at = server.ask_many([("GET", place), ("ZSCORE", places, name)])
        if data is not None and at is not None:
            more = _encode([name]).decode() if name != following[-1] else None
            return Batch((FileCopy(sha256=name, at=float(at), data=data),), more)
    return Batch()


def purged(server: Server, place: Sequence[Any]) -> Batch:
    """What is left of tasks that are gone; their keys are found by looking at all."""
    prefix = key("purged", server.address.prefix, id="").encode()
    cursor, found = scanned(server, place[0] if place else "0", prefix)
    stored = server.ask_many([("GET", name) for name in found])
    records = [
        purged_copy(name[len(prefix) :].decode(), value)
        for name, value in zip(found, stored, strict=True)
        if value is not None
    ]
    return Batch(tuple(records), None if cursor == "0" else _encode([cursor]).decode())


def scanned(server: Server, cursor: str, beginning: bytes) -> tuple[str, list[bytes]]:
    """Some keys that begin so, and where to go on."""
    pattern = escaped(beginning) + b"*"
    following, found = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED)
    return following.decode(), list(found)


def purged_copy(id: str, stored: bytes) -> PurgedCopy:
    """What a key says of a task that is gone."""
    task = record.read_purged(id, stored)
    return PurgedCopy(
        id=id, queue=task.queue, state=task.state, created=task.created,
        finished_at=task.finished_at or task.updated, at=task.updated,
    )  # fmt: skip


def figures(
    place: Sequence[Any], read: Callable[[int, float, float], Sequence[Figures]], now: float
) -> Batch:
    """Those of some stretches of one length, from `place` on: the length, and when they began."""
    steps = sorted(KEPT)
    step, since = place or (steps[0], _first(steps[0], now))
    until = since + _STRETCHES * step
    found = tuple(FiguresCopy(step=step, figures=each) for each in read(step, since, until))
    if until <= now + step:
        return Batch(found, _encode([step, until]).decode())
    longer = [each for each in steps if each > step][:1]
    return Batch(found, _encode([longer[0], _first(longer[0], now)]).decode() if longer else None)


def _first(step: int, now: float) -> float:
    return (now - KEPT[step] - step) // step * step


def _figures(server: Server, step: int, since: float, until: float) -> list[Figures]:
    ask = queue_stats.figures
    return [*ask(server, since, until, step, []), *ask(server, since, until, step, None)]


# Writing


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
    for each in map(packed, records):
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
    put_seal(server, seal(server), counters.last_event)
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
    return f"{kept.at or 0.0!r} {_usage(kept).decode()}"


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
