"""The reading side of the contract, but for `find`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stayer.core.decoding import json_decoder
from stayer.core.insight import usage_series
from stayer.core.insight.kind import kind_of
from stayer.core.model import STATES, Attempt, Checkpoint, Event, LogPiece, Statistics, Task, Usage
from stayer.core.ordering.rate_limit import Bucket
from stayer.core.queue_model import Kept, QueueInfo, Rate
from stayer.core.submit.defaults import read_defaults
from stayer.stores.redis import history, record
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key
from stayer.stores.redis.portions import portions_of_queues
from stayer.stores.redis.record import Raw

_READ_BATCH = 2000
_retention = json_decoder(dict[Kept, float])
_words = json_decoder(tuple[str, ...])


def get(server: Server, ids: Sequence[str]) -> list[Task | None]:
    """Tasks by id, in the order asked for, some thousands at a time."""
    found: list[Task | None] = []
    for first in range(0, len(ids), _READ_BATCH):
        found += record.tasks_or_none(*server.run("get", *ids[first : first + _READ_BATCH]))
    return found


def peek(server: Server, queue: str, limit: int) -> list[Task]:
    """Read what would be reserved next, best first."""
    return record.tasks(*server.run("peek", queue, limit))


def ahead(server: Server, id: str) -> int:
    """Count the tasks that stand before a pending one."""
    return int(server.run("ahead", id))


def durations(server: Server, queue: str, limit: int) -> list[tuple[str, float]]:
    """Tell how long complete tasks took."""
    answer = server.run("durations", queue, limit)
    words = ([word.decode() for word in each] for each in answer[::2])
    kinds = (kind_of(name, command) for name, *command in words)
    return list(zip(kinds, map(float, answer[1::2]), strict=True))


def attempts(server: Server, id: str) -> list[Attempt]:
    """Return the attempts of a task."""
    answer = server.run("history", id)
    if answer is None:
        return []
    value, older, usages = answer
    return history.attempts(value, older, dict(zip(usages[::2], usages[1::2], strict=True)))


def events(server: Server, id: str) -> list[Event]:
    """Return the events of a task."""
    answer = server.run("history", id)
    return [] if answer is None else history.events(answer[0], answer[1])


def last_event(server: Server) -> int:
    """The newest event's number."""
    noted = server.ask("GET", key("last", server.address.prefix)) or b"0"
    return int(noted.removeprefix(b"sealed ").partition(b" ")[0])


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
    """Return the points of an attempt's series."""
    name = key("usage", server.address.prefix, id=id, attempt=str(attempt))
    stored = server.ask("HGETALL", name)
    points = sorted(zip(map(int, stored[::2]), stored[1::2], strict=True))
    return [record.usage(point) for slot, point in points if slot != usage_series.STATISTICS]


def statistics(server: Server, id: str, attempt: int) -> Statistics | None:
    """Return what an attempt has reported of itself."""
    name = key("usage", server.address.prefix, id=id, attempt=str(attempt))
    stored = server.ask("HGET", name, usage_series.STATISTICS)
    return None if stored is None else record.statistics(stored)


def checkpoint(server: Server, id: str) -> Checkpoint | None:
    """Return what the task saved last."""
    name = key("checkpoint", server.address.prefix, id=id)
    attempt, at, data = server.ask("HMGET", name, "attempt", "at", "data")
    return None if attempt is None else Checkpoint(int(attempt), float(at), data)


def queues(server: Server, names: Sequence[str] = ()) -> list[QueueInfo]:
    """Read these queues, or all, by name."""
    answers = [server.run("queues", *some) for some in portions_of_queues(server, names)]
    found = [queue for answer in answers for queue in decode_queues(answer)]
    return sorted(found, key=lambda queue: queue.name)


def decode_queues(answer: Raw) -> list[QueueInfo]:
    """Queues with their counts, by name."""
    listened, now, *stored = answer
    listeners = Counter(queue for words in listened for queue in set(_words.decode(words)))
    found = [_queue(each, listeners, float(now)) for each in stored]
    return sorted(found, key=lambda queue: queue.name)


def _queue(stored: Raw, listeners: Counter[str], now: float) -> QueueInfo:
    name, settings, key_limits, *rest = stored
    paused, limit, key_limit, fair, *rate, notify, defaults = settings
    counts, oldest, retention = rest[:8], rest[8], rest[9]
    bucket = _bucket(*rate)
    return QueueInfo(
        name=name.decode(),
        paused=paused == b"1",
        limit=None if limit is None else int(limit),
        key_limit=None if key_limit is None else int(key_limit),
        key_limits={
            key.decode(): int(each)
            for key, each in zip(key_limits[::2], key_limits[1::2], strict=True)
        },
        fair=None if fair is None else fair.decode(),
        notify=() if notify is None else tuple(notify.decode().split("\n")),
        rate=None if bucket is None else bucket.rate,
        next_start=None if bucket is None else bucket.next(now),
        counts=dict(zip(STATES, counts, strict=True)),
        workers=listeners[name.decode()],
        oldest=record.created_and_seq(oldest)[0] if oldest else None,
        retention=_retention.decode(retention),
        defaults={} if defaults is None else read_defaults(defaults.decode()),
    )


def _bucket(rate: Raw, per: Raw, tokens: Raw, at: Raw) -> Bucket | None:
    if rate is None:
        return None
    known = Rate(int(rate), float(per))
    return Bucket(known, float(tokens or 0), None if at is None else float(at))
