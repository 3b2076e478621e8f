"""The reading side of the contract, but for `find`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from stayer.core.model import (
    STATES,
    Attempt,
    Checkpoint,
    Event,
    Kept,
    LogPiece,
    QueueInfo,
    Task,
    Usage,
)
from stayer.stores.redis import record
from stayer.stores.redis.keys import key
from stayer.stores.redis.record import Raw
from stayer.stores.redis.server import Server

_AT_ONCE = 2000
_retention = msgspec.json.Decoder(dict[Kept, float])
_words = msgspec.json.Decoder(tuple[str, ...])


def get(server: Server, ids: Sequence[str]) -> list[Task | None]:
    """Tasks by id, in the order asked for, some thousands at a time."""
    found: list[Task | None] = []
    for first in range(0, len(ids), _AT_ONCE):
        found += record.tasks_or_none(*server.run("get", *ids[first : first + _AT_ONCE]))
    return found


def durations(answer: Raw) -> list[tuple[str, float]]:
    """How long complete tasks took."""
    kinds = (kind.decode() for kind in answer[::2])
    return list(zip(kinds, map(float, answer[1::2]), strict=True))


def attempts(server: Server, id: str) -> list[Attempt]:
    """The attempts of a task."""
    answer = server.run("history", id)
    if answer is None:
        return []
    value, older, usages = answer
    return record.attempts(value, older, dict(zip(usages[::2], usages[1::2], strict=True)))


def events(server: Server, id: str) -> list[Event]:
    """The events of a task."""
    answer = server.run("history", id)
    return [] if answer is None else record.events(answer[0], answer[1])


def last_event(server: Server) -> int:
    """The newest event's number."""
    return int(server.ask("GET", key("last", server.address.prefix)) or 0)


def log(server: Server, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
    """Pieces from the offset on, each byte once: a worker that was restarted cuts them anew."""
    answer = server.run("log", id, attempt, start, limit)
    pieces: list[LogPiece] = []
    position = start
    for offset, at, data in zip(map(int, answer[::3]), answer[1::3], answer[2::3], strict=True):
        skipped = max(0, position - offset)
        if skipped < len(data):
            pieces.append(LogPiece(offset + skipped, data[skipped:], float(at)))
            position = offset + len(data)
    return pieces


def usage(server: Server, id: str, attempt: int) -> list[Usage]:
    """The points of an attempt's series."""
    name = key("usage", server.address.prefix, id=id, attempt=str(attempt))
    stored = server.ask("HGETALL", name)
    points = sorted(zip(map(int, stored[::2]), stored[1::2], strict=True))
    return [record.usage(point) for _, point in points]


def checkpoint(server: Server, id: str) -> Checkpoint | None:
    """What the task saved last."""
    name = key("checkpoint", server.address.prefix, id=id)
    attempt, at, data = server.ask("HMGET", name, "attempt", "at", "data")
    return None if attempt is None else Checkpoint(int(attempt), float(at), data)


def queues(answer: Raw) -> list[QueueInfo]:
    """Queues with their counts, by name."""
    listened, *stored = answer
    listeners = Counter(queue for words in listened for queue in set(_words.decode(words)))
    found = [_queue(each, listeners) for each in stored]
    return sorted(found, key=lambda queue: queue.name)


def _queue(stored: Raw, listeners: Counter[str]) -> QueueInfo:
    name, paused, limit, *rest = stored
    counts, oldest, retention = rest[:8], rest[8], rest[9]
    return QueueInfo(
        name=name.decode(),
        paused=paused == 1,
        limit=None if limit is None else int(limit),
        counts=dict(zip(STATES, counts, strict=True)),
        workers=listeners[name.decode()],
        oldest=float(record.fields(oldest)[record.CREATED]) if oldest else None,
        retention=_retention.decode(retention),
    )
