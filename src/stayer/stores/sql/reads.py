"""The reading side of the contract, but for `find`."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from stayer.core.history.line import Line
from stayer.core.insight import usage_series
from stayer.core.model import Attempt, Checkpoint, Event, LogPiece, Statistics, Task, Usage
from stayer.core.queue_model import QueueInfo
from stayer.core.worker_model import EVERYTHING
from stayer.store import LOG_PIECE
from stayer.stores.sql import history
from stayer.stores.sql.reserve import best
from stayer.stores.sql.rows import (
    by_seq,
    check_row,
    event_from_row,
    form,
    kind_from_cells,
    queue_from_row,
    statistics_from_cell,
    task_from_row,
    usage_from_cell,
)
from stayer.stores.sql.transaction import Transaction

_CHECKPOINT = form("integer", "real", "bytes")
_PIECE = form("integer", "bytes", "real")


def get(tx: Transaction, ids: Sequence[str]) -> list[Task | None]:
    """Tasks by id, in the order asked for."""
    there = {row[0]: task_from_row(row) for row in tx.all("get", tx.array(ids))}
    return [there.get(id) for id in ids]


def peek(tx: Transaction, queue: str, limit: int) -> list[Task]:
    """The head of a queue."""
    return by_seq(tx, best(tx, queue, limit, EVERYTHING, claim=False))


def ahead(tx: Transaction, id: str) -> int:
    """How many stand before it."""
    row = tx.one("ahead", id)
    return row[0] if row else 0


def durations(tx: Transaction, queue: str, limit: int) -> list[tuple[str, float]]:
    """How long complete tasks took."""
    return [
        (kind_from_cells(name, command), seconds)
        for name, command, seconds in tx.all("durations", queue, limit)
    ]


def attempts(tx: Transaction, id: str) -> list[Attempt]:
    """The attempts of a task."""
    found, [task] = tx.one("get.seq", id), get(tx, [id])
    if found is None or task is None:
        return []
    seq, _ = found
    usages = {attempt: usage_from_cell(cell) for attempt, cell in tx.all("attempts.usage", seq)}
    return history.attempts(task, _history(tx, seq), usages)


def events(tx: Transaction, id: str) -> list[Event]:
    """The events of a task."""
    found = tx.one("get.seq", id)
    return [] if found is None else list(history.events(id, found[1], _history(tx, found[0])))


def _history(tx: Transaction, seq: int) -> list[Line]:
    return history.read_history(tx.all("history", seq))


def watch(tx: Transaction, since: int, limit: int) -> list[Event]:
    """The events after a number."""
    return [event_from_row(row) for row in tx.all("watch", since, limit)]


def identity(tx: Transaction) -> str | None:
    """What tells this store from any other; None if nobody has asked yet."""
    row = tx.one("identity.get")
    return None if row is None else str(row[0])


def make_identity(tx: Transaction) -> str:
    """At random; or the one that somebody else has just made."""
    tx.run("identity.make", uuid4().hex)
    made = identity(tx)
    assert made is not None
    return made


def last_event(tx: Transaction) -> int:
    """The newest event's number."""
    row = tx.one("last_event")
    return row[0] if row else 0


def log(tx: Transaction, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
    """Pieces from the offset on, each byte once: a worker that was restarted cuts them anew."""
    pieces: list[LogPiece] = []
    position = start
    for row in tx.all("log", _seq(tx, id), attempt, start - LOG_PIECE):
        offset, data, at = check_row(row, _PIECE)
        skipped = max(0, position - offset)
        if skipped >= len(data):
            continue
        pieces.append(LogPiece(offset + skipped, data[skipped:], at))
        position = offset + len(data)
        limit -= len(data) - skipped
        if limit <= 0:
            break
    return pieces


def usage(tx: Transaction, id: str, attempt: int) -> list[Usage]:
    """The points of an attempt's series."""
    return [usage_from_cell(cell) for (cell,) in tx.all("usage", _seq(tx, id), attempt)]


def statistics(tx: Transaction, id: str, attempt: int) -> Statistics | None:
    """What the attempt has reported of itself."""
    row = tx.one("statistics", _seq(tx, id), attempt, usage_series.STATISTICS)
    return None if row is None else statistics_from_cell(row[0])


def checkpoint(tx: Transaction, id: str) -> Checkpoint | None:
    """What the task saved last."""
    row = tx.one("checkpoint", _seq(tx, id))
    return None if row is None else Checkpoint(*check_row(row, _CHECKPOINT))


def queues(tx: Transaction, names: Sequence[str] = ()) -> list[QueueInfo]:
    """Queues with their counters."""
    rows = tx.all("queues", not names, tx.array(names))
    defaults: dict[str, str] = dict(tx.all("queue.all_defaults"))
    return [queue_from_row(row, tx.now, defaults.get(row[0], "")) for row in rows]


def _seq(tx: Transaction, id: str) -> int | None:
    row = tx.one("get.seq", id)
    return row[0] if row else None
