"""`Store.load`: neutral records into the tables, whichever kind of store they come from.

What follows from tasks is worked out here: counters, what stands in lines, who is to hear of an
end. Each batch is one transaction. Of what is there already nothing is changed, so a batch that
comes twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.history.gaps import cut_into_parts
from stayer.core.history.line import Line
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
from stayer.core.notify.notices import Notice
from stayer.core.schedules.model import Schedule, pack_task
from stayer.store.base import MOVED_WITH_A_STORE
from stayer.stores.sql import history, queue_stats, shared_values
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import json_cell, task_cells
from stayer.stores.sql.transaction import Row, Transaction


def load(tx: Transaction, records: Sequence[Record]) -> None:
    """Enter records of one stage."""
    if records:
        _LOADERS[type(records[0])](tx, cast(Any, records))


def _counters(tx: Transaction, records: Sequence[Counters]) -> None:
    for each in records:
        tx.run("load.last_event", each.last_event, tx.now)
        if each.sampled is not None:
            tx.run("load.sampled", str(each.sampled))
        for name in MOVED_WITH_A_STORE:
            if name in each.shared:
                known = shared_values.read_shared(tx, name)
                shared_values.put_shared(tx, name, each.shared[name], known)


def _queues(tx: Transaction, records: Sequence[QueueCopy]) -> None:
    for each in records:
        rate = each.rate
        tx.run(
            "load.queue", each.name, each.paused, each.limit, each.key_limit,
            json_cell(each.key_limits) if each.key_limits else None,
            rate and rate.count, rate and rate.per, each.tokens, each.tokens_at, each.fair,
            json_cell(each.retention) if each.retention else None, json_cell(each.notify),
            each.logs_gone, each.results_gone, each.defaults or None,
        )  # fmt: skip
        tx.many("shares.put", [(each.name, share, *used) for share, used in each.shares.items()])


def _tasks(tx: Transaction, records: Sequence[TaskCopy]) -> None:
    known = _seqs(tx, [each.task.id for each in records])
    fresh = [each for each in records if each.task.id not in known]
    ledger, parts = Ledger(tx), dict[str, list[Row]]()
    rows = []
    for each in fresh:
        task = each.task
        if "\0" in task.id or "\0" in task.queue:
            raise BadInput(f"task {task.id!r}: no SQL database keeps a NUL in an id or a queue")
        newest, older = _history(each.history)
        if older:
            parts[task.id] = older
        reserved = [line.at for line in each.history if line.event == "reserved"]
        values = map(tx.dialect.value_cell, (each.parameters, each.result))
        cells = task_cells(task, *values)
        fixed = newest, reserved[-1] if reserved else None, task.queue, task.owner, task.key
        rows.append((*fixed, *cells))
        ledger.note_move(task.queue, None, task.state)
    tx.many("load.task", rows)
    if parts:
        seqs = _seqs(tx, list(parts))
        tx.many("history.move", [(seqs[id], *row) for id in parts for row in parts[id]])
    ledger.write()


def _history(lines: Sequence[Line]) -> tuple[str, list[Row]]:
    """What the row of a task has of its history, and the parts that are kept beside it: how many
    lines came before, how many these are, the lines.
    """
    parts = [
        (before, len(part), "".join(history.line(*msgspec.structs.astuple(line)) for line in part))
        for before, part in cut_into_parts(lines)
    ]
    if len(parts) == 1 and len(text := parts[0][2]) <= history.LONGEST:
        return text, []
    return "", parts


def _seqs(tx: Transaction, ids: Sequence[str]) -> dict[str, int]:
    return dict(tx.all("load.there", tx.array(ids)))


def _of_tasks(
    statement: str, cells: Callable[[Any], Row]
) -> Callable[[Transaction, Sequence[Any]], None]:
    """A loader of what belongs to tasks, which are there."""

    def write(tx: Transaction, records: Sequence[Any]) -> None:
        seqs = _seqs(tx, list({each.task for each in records}))
        tx.many(statement, [(seqs[each.task], *cells(each)) for each in records])

    return write


def _flows(tx: Transaction, records: Sequence[FlowCopy]) -> None:
    for each in records:
        parts = msgspec.json.encode(each.parts).decode()
        tx.run("flow.add", each.id, each.name, each.owner, each.created, parts)


def _schedules(tx: Transaction, records: Sequence[Schedule]) -> None:
    tx.many(
        "load.schedule",
        [
            (
                each.name, each.cron, each.zone, pack_task(each.task), each.overlap,
                each.catch_up, float(each.jitter), each.paused, each.origin, each.next,
                each.created, each.updated, each.last, each.last_task, each.waiting,
            )
            for each in records
        ],
    )  # fmt: skip


def _notices(tx: Transaction, records: Sequence[Notice]) -> None:
    tx.many(
        "load.notice",
        [
            (
                each.id, each.task, each.queue, each.event, each.to, each.attempt, each.at,
                each.state, each.tries, each.forgiven, each.since, each.next, each.said,
                codec.encode(each.record),
            )
            for each in records
        ],
    )  # fmt: skip


def _purged(tx: Transaction, records: Sequence[PurgedCopy]) -> None:
    tx.many("load.purged", [msgspec.structs.astuple(each) for each in records])


def _figures(tx: Transaction, records: Sequence[FiguresCopy]) -> None:
    rows = [
        (each.step, *(getattr(each.figures, name) for name in queue_stats.FIELDS))
        for each in records
    ]
    tx.many("load.figures", rows)


def _files(tx: Transaction, records: Sequence[FileCopy]) -> None:
    tx.many("load.file", [(each.sha256, each.at, each.data) for each in records])


def _ties(tx: Transaction, records: Sequence[TiesCopy]) -> None:
    seqs = _seqs(tx, [each.task for each in records])
    tx.many("load.tie", [row for each in records for row in _tie_rows(seqs[each.task], each)])
    waited_for = {tie.id for each in records for tie in each.waits}
    if waited_for:
        tx.run("outbox.ended", tx.now, tx.array(waited_for))


def _tie_rows(seq: int, copy: TiesCopy) -> Iterator[Row]:
    waits, named = {tie.id for tie in copy.waits}, {tie.id for tie in copy.upstreams}
    for position, tie in enumerate(copy.upstreams):
        yield seq, position, tie.id, int(tie.anyhow), tie.id in waits
    for position, id in enumerate(sorted(waits - named), len(copy.upstreams)):
        yield seq, position, id, 2, True


_LOADERS: dict[type, Callable[[Transaction, Any], None]] = {
    Counters: _counters,
    QueueCopy: _queues,
    TaskCopy: _tasks,
    LogCopy: _of_tasks("load.log", lambda each: (each.attempt, each.start, each.at, each.data)),
    UsageCopy: _of_tasks(
        "load.usage",
        lambda each: (each.attempt, each.slot, json_cell(each.statistics or each.usage)),
    ),
    CheckpointCopy: _of_tasks("load.checkpoint", lambda each: (each.attempt, each.at, each.data)),
    FlowCopy: _flows,
    Schedule: _schedules,
    Notice: _notices,
    PurgedCopy: _purged,
    FiguresCopy: _figures,
    FileCopy: _files,
    TiesCopy: _ties,
}
