"""`Store.forget`: what has been kept for long enough, queue by queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from stayer.core.model import FINISHED
from stayer.core.queue_model import Kept
from stayer.stores.sql.queues import delete, find_old, forget_traces
from stayer.stores.sql.rows import retention_from_cell
from stayer.stores.sql.transaction import Transaction


class Portion(NamedTuple):
    """Some that can go: whole tasks, or the logs or results of tasks that ended up to a moment."""

    what: Literal["tasks", "logs", "results"]
    queue: str
    seqs: list[int]
    up_to: float = 0.0


def is_anything_old(tx: Transaction, retention: Mapping[Kept, float]) -> bool:
    """Whether there is something to forget; only looks."""
    return next(_portions(tx, retention, 1, claim=False), None) is not None


def forget(tx: Transaction, retention: Mapping[Kept, float], limit: int) -> int:
    """About `limit`, from the first queues that have something."""
    seen = 0
    for portion in _portions(tx, retention, limit, claim=True):
        if portion.what == "tasks":
            delete(tx, portion.seqs)
        else:
            tx.run(f"forget.{portion.what}", tx.array(portion.seqs))
            tx.run(f"forget.{portion.what}_gone", portion.up_to, portion.queue)
        seen += len(portion.seqs)
        if seen >= limit:
            break
    forget_traces(tx)
    return seen


def _portions(
    tx: Transaction, usual: Mapping[Kept, float], limit: int, *, claim: bool
) -> Iterator[Portion]:
    for queue, cell, logs_gone, results_gone in tx.all("forget.queues"):
        kept = {**usual, **retention_from_cell(cell)}
        for state in FINISHED:
            if state in kept:
                rows = find_old(tx, [queue], [state], tx.now - kept[state], limit, claim=claim)
                if rows:
                    yield Portion("tasks", queue, [seq for seq, _ in rows])
        if "log" in kept:
            yield from _part(tx, "logs", queue, logs_gone, tx.now - kept["log"], limit)
        if "result" in kept:
            before = tx.now - kept["result"]
            spared = tx.all("forget.spared", queue, min(results_gone, before), limit)
            if spared:
                yield Portion("results", queue, [seq for (seq,) in spared], results_gone)
            yield from _part(tx, "results", queue, results_gone, before, limit)


def _part(
    tx: Transaction,
    what: Literal["logs", "results"],
    queue: str,
    gone: float,
    before: float,
    limit: int,
) -> Iterator[Portion]:
    """Of tasks whose end nobody has seen to, the oldest; all that ended in the same moment."""
    ends = [tx.one("forget.end", queue, state, gone, before, limit - 1) for state in FINISHED]
    up_to = min((end[0] for end in ends if end is not None), default=before)
    seqs = [
        seq for state in FINISHED for (seq,) in tx.all("forget.ended", queue, state, gone, up_to)
    ]
    if seqs:
        yield Portion(what, queue, seqs, up_to)
