"""`Store.dump`: all that is in the tables as neutral records, a batch at a time.

A cursor is the key of the last row of a batch, as JSON. Rows are read a few at a time until there
are enough bytes, so that a batch stays small however large the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stayer.core import codec
from stayer.core.decoding import json_decoder
from stayer.core.flows.model import Part
from stayer.core.history.line import Line
from stayer.core.insight.queue_stats import Figures
from stayer.core.insight.usage_series import STATISTICS
from stayer.core.model import QUEUED, Task, Usage
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
    TaskCopy,
    Tie,
    TiesCopy,
    UsageCopy,
)
from stayer.core.queue_model import Rate
from stayer.store.base import MOVED_WITH_A_STORE
from stayer.stores.sql import history, queue_stats, reads, shared_values
from stayer.stores.sql.notices import notice_from_row
from stayer.stores.sql.rows import (
    hooks_from_cell,
    limits_from_cell,
    packed_from_cell,
    retention_from_cell,
    schedule_from_row,
    statistics_from_cell,
    task_from_row,
    usage_from_cell,
)
from stayer.stores.sql.transaction import Cell, Row, Transaction

_PARAMETERS = Task.__struct_fields__.index("parameters")
_RESULT = Task.__struct_fields__.index("result")
_MOST = 1000
"""How many records a batch has at most."""
_FEW = {"tasks": 20, "logs": 16, "checkpoints": 1, "files": 1}
"""How many rows are read at once where they may be large."""
_USUAL = 200
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_parts = json_decoder(tuple[Part, ...]).decode
_LEAST = -(2**62)
Found = tuple[Record, Row, int]
"""A record, the key of its row, and about how many bytes it has."""


def dump(tx: Transaction, stage: Stage, cursor: str | None, limit: int) -> Batch:
    """Some records of a stage."""
    if stage == "counters":
        counters = Counters(
            last_event=reads.last_event(tx),
            sampled=queue_stats.last_sampled(tx),
            shared={
                name: value
                for name in MOVED_WITH_A_STORE
                if (value := shared_values.read_shared(tx, name)) is not None
            },
        )
        return Batch((counters,))
    first, read = _STAGES[stage]
    key: Row = first if cursor is None else tuple(_decode(cursor))
    records: list[Record] = []
    few = _FEW.get(stage, _USUAL)
    while limit > 0 and len(records) < _MOST:
        found = list(read(tx, key, few))
        for record, key, size in found:  # noqa: B007
            records.append(record)
            limit -= size
        if len(found) < few:
            return Batch(tuple(records))
    return Batch(tuple(records), _encode(key).decode())


def _queues(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for row in tx.all("dump.queues", *key, limit):
        (
            name, paused, most, key_limit, key_limits, rate, per, tokens, tokens_at, fair,
            retention, notify, logs_gone, results_gone, defaults,
        ) = row  # fmt: skip
        shares = {share: (used, runs, at) for share, used, runs, at in tx.all("shares", name)}
        copy = QueueCopy(
            name=name, paused=paused != 0, limit=most, key_limit=key_limit,
            key_limits=limits_from_cell(key_limits), rate=None if rate is None else Rate(rate, per),
            tokens=tokens, tokens_at=tokens_at, fair=fair, retention=retention_from_cell(retention),
            notify=hooks_from_cell(notify), logs_gone=logs_gone, results_gone=results_gone,
            shares=shares, defaults=defaults or "",
        )  # fmt: skip
        yield copy, (name,), 1000 + 100 * len(shares)


def _tasks(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    rows = tx.all("dump.tasks", *key, limit)
    older: dict[int, list[tuple[int | None, str]]] = {}
    for task, before, lines in tx.all("dump.history", tx.array([row[-2] for row in rows])):
        older.setdefault(task, []).append((before, lines))
    for *cells, seq, newest in rows:
        parameters, result = _form(cells[_PARAMETERS]), _form(cells[_RESULT])
        cells[_PARAMETERS] = cells[_RESULT] = None
        task = task_from_row((*cells, seq))
        lines = history.read_history([*older.get(seq, ()), (None, newest)])
        if not lines or lines[0].event not in QUEUED:  # somebody has written there by hand
            lines.insert(0, Line(0, task.created, "pending"))
        copy = TaskCopy(task=task, parameters=parameters, result=result, history=tuple(lines))
        yield copy, (seq,), 1000 + len(parameters or "") + len(result or "") + 100 * len(lines)


def _form(cell: Cell) -> str | bytes | None:
    """A value in the form in which it is kept; by hand, a number may be written there as one."""
    if cell is None:
        return None
    if isinstance(cell, str | bytes):
        return packed_from_cell(cell)
    return codec.pack(codec.unpack(cell), "parameters", codec.PARAMETERS_LIMIT)


def _logs(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for seq, attempt, start, queue, id, at, data in tx.all("dump.logs", *key, limit):
        copy = LogCopy(queue=queue, task=id, attempt=attempt, start=start, at=at, data=bytes(data))
        yield copy, (seq, attempt, start), 100 + len(data)


def _usage(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for seq, attempt, slot, queue, id, cell in tx.all("dump.usage", *key, limit):
        own = statistics_from_cell(cell) if slot == STATISTICS else None
        copy = UsageCopy(
            queue=queue, task=id, attempt=attempt, slot=slot,
            usage=usage_from_cell(cell) if own is None else Usage(), statistics=own,
        )  # fmt: skip
        yield copy, (seq, attempt, slot), 100 + len(cell)


def _checkpoints(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for seq, queue, id, attempt, at, data in tx.all("dump.checkpoints", *key, limit):
        copy = CheckpointCopy(queue=queue, task=id, attempt=attempt, at=at, data=bytes(data))
        yield copy, (seq,), 100 + len(data)


def _ties(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    tied = tx.all("dump.tied", *key, limit)
    rows: dict[int, list[Row]] = {}
    for task, *row in tx.all("dump.ties", tx.array([row[0] for row in tied])):
        rows.setdefault(task, []).append(tuple(row))
    for seq, queue, id, finished_at in tied:
        of = rows.get(seq, [])
        waits = sorted((upstream, anyhow != 0) for upstream, anyhow, waits in of if waits)
        copy = TiesCopy(
            queue=queue, task=id, is_over=finished_at is not None,
            # 2: it is only waited for, since a retry.
            upstreams=tuple(Tie(each, anyhow != 0) for each, anyhow, _ in of if anyhow < 2),
            waits=tuple(Tie(*each) for each in waits),
        )  # fmt: skip
        yield copy, (seq,), 100 + 60 * len(of)


def _files(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for sha256, at, data in tx.all("dump.files", *key, limit):
        yield FileCopy(sha256=sha256, at=at, data=bytes(data)), (sha256,), 100 + len(data)


def _flows(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for seq, id, name, owner, created, parts in tx.all("dump.flows", *key, limit):
        copy = FlowCopy(id=id, name=name, owner=owner, created=created, parts=_parts(parts))
        yield copy, (seq,), 200 + len(parts)


def _schedules(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for row in tx.all("dump.schedules", *key, limit):
        yield schedule_from_row(row), (row[0],), 500 + len(row[3])


def _notices(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for row in tx.all("dump.notices", *key, limit):
        yield notice_from_row(row), (row[0],), 500 + len(row[-1])


def _purged(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for id, queue, state, created, finished_at, at in tx.all("dump.purged", *key, limit):
        copy = PurgedCopy(
            id=id, queue=queue, state=state, created=created,
            finished_at=at if finished_at is None else finished_at, at=at,
        )  # fmt: skip
        yield copy, (id,), 200


def _figures(tx: Transaction, key: Row, limit: int) -> Iterator[Found]:
    for step, *cells in tx.all("dump.figures", *key, limit):
        figures = Figures(**dict(zip(queue_stats.FIELDS, cells, strict=True)))
        yield FiguresCopy(step=step, figures=figures), (step, *cells[:2]), 200


_Reader = Callable[[Transaction, Row, int], Iterator[Found]]
_STAGES: dict[str, tuple[Row, _Reader]] = {
    "queues": (("",), _queues),
    "tasks": ((_LEAST,), _tasks),
    "logs": ((_LEAST, 0, -1), _logs),
    "usage": ((_LEAST, 0, -1), _usage),
    "checkpoints": ((_LEAST,), _checkpoints),
    "flows": ((_LEAST,), _flows),
    "schedules": (("",), _schedules),
    "notices": ((_LEAST,), _notices),
    "purged": (("",), _purged),
    "figures": ((0, 0.0, ""), _figures),
    "files": (("",), _files),
    "ties": ((_LEAST,), _ties),
}
"""The key before the first row, and who reads rows behind a key."""
