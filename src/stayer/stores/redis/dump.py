"""`Store.dump` on a server: one that stands alone, or a shard of a cluster.

A cursor is JSON: the queue, and where in it to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from stayer.core.insight.queue_stats import KEPT, Figures
from stayer.core.insight.usage_series import STATISTICS
from stayer.core.model import Usage
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
    Stage,
    Tie,
    TiesCopy,
    UsageCopy,
)
from stayer.core.queue_model import Rate
from stayer.store.base import MOVED_WITH_A_STORE
from stayer.stores.redis import flows, leases, notices, queue_stats, reads, record, schedules
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import escape_pattern, key
from stayer.stores.redis.pack.whole_task import unpack_copy
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
                    if (value := leases.read_shared(server, name)) is not None
                },
            )
            return Batch((counters,))
        case "queues":
            return Batch(tuple(queue(server, name) for name in names(server)))
        case "tasks":
            return by_queue(names(server), place, lambda name, at: tasks(server, name, at, limit))
        case "logs" | "usage" | "checkpoints" | "ties":
            return by_queue(
                names(server),
                place,
                lambda name, at: dump_beside_tasks(server, stage, name, at, limit),
            )
        case "flows":
            found = flow_places(server, place[0] if place else _ALL, MOST)
            return make_page(found, MOST)
        case "schedules":
            return Batch(tuple(schedules.schedules(server)))
        case "notices":
            found = notice_places(server, place[0] if place else _ALL, MOST)
            return make_page(found, MOST)
        case "files":
            return files(server, place[0] if place else _ALL)
        case "purged":
            return dump_purged(server, place)
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


def make_page(found: Sequence[tuple[str, Record | None]], limit: int) -> Batch:
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
    found: list[Record] = [unpack_copy(row[0], row[1], row[2], [*row[3], *row[4]]) for row in rows]
    return [bound.decode()] if bound else [], found


def dump_beside_tasks(
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
        (place.decode(), notices.read_notice(place[16:], pairs) if pairs else None)
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


def dump_purged(server: Server, place: Sequence[Any]) -> Batch:
    """What is left of tasks that are gone; their keys are found by looking at all."""
    prefix = key("purged", server.address.prefix, id="").encode()
    cursor, found = scan_keys(server, place[0] if place else "0", prefix)
    stored = server.ask_many([("GET", name) for name in found])
    records = [
        purged_copy(name[len(prefix) :].decode(), value)
        for name, value in zip(found, stored, strict=True)
        if value is not None
    ]
    return Batch(tuple(records), None if cursor == "0" else _encode([cursor]).decode())


def scan_keys(server: Server, cursor: str, beginning: bytes) -> tuple[str, list[bytes]]:
    """Some keys that begin so, and where to go on."""
    pattern = escape_pattern(beginning) + b"*"
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
