"""`Store.beat`, `declare_lost` and what else concerns workers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stayer.core.errors import LeaseLost, Refused, UnknownWorker
from stayer.core.insight import usage_series
from stayer.core.insight.statistics import latest_values
from stayer.core.lifecycle import acknowledge
from stayer.core.liveness import lost_workers as lost
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import Report, Statistics, Task, Usage
from stayer.core.units import format_duration
from stayer.core.worker_model import Beat, Orders, Suspect, Worker, WorkerOrder
from stayer.store import LOG_HEAD, LOG_TAIL
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import (
    check_row,
    form,
    json_cell,
    orders_from_cell,
    task_from_row,
    worker_from_row,
    worker_order,
)
from stayer.stores.sql.transaction import Cell, Row, Transaction

_SUSPECT = form("text", "integer", "real")
_LOST = form("text", "integer", "text", "2 real")


def beat(
    tx: Transaction, worker: Worker, number: int, nonce: str, reports: Sequence[Report]
) -> Beat:
    """One row for the lease, whatever the worker runs; more only for what is new. What reports
    change is written when it is known who holds it.
    """
    _expect(tx, worker.id, reports)
    tx.prefetch("beat.wanted", tx.now, worker.id)
    if not _renew(tx, worker, number, nonce):
        raise LeaseLost(
            f"worker {worker.id} lost its lease: it was declared lost, or another process uses "
            "its identity. Its tasks may run elsewhere by now"
        )
    wanted = tx.one("beat.wanted", tx.now, worker.id)
    order = None if wanted is None else worker_order(wanted[2])
    if order is not None and order.ends_at is not None and order.ends_at < tx.now:
        raise LeaseLost(
            f"worker {worker.id} lost its lease: it was told to stop what it runs, and did not"
        )
    for report in reports:
        _take(tx, worker.id, report)
    _expect_news(tx, worker.id)
    tx.commit_with_next()
    return _news(tx, worker.id, wanted)


def beat_at_once(tx: Transaction, worker: Worker, number: int, nonce: str) -> Beat | None:
    """Renew a lease in one round trip, where there is nothing to report. None: nothing is done, for
    the lease can't be renewed, or there is an order to the worker that has to be looked at first.
    """
    tx.prefetch("beat.wanted", tx.now, worker.id)
    _expect_news(tx, worker.id)
    tx.commit_with_next()
    if tx.run("beat.unordered", *_about(worker, number, nonce), tx.now, worker.id) != 1:
        return None
    return _news(tx, worker.id, tx.one("beat.wanted", tx.now, worker.id))


def _expect_news(tx: Transaction, worker: str) -> None:
    """What a beat brings back will be asked for, and so may come with one answer."""
    tx.prefetch("beat.orders", worker)
    tx.prefetch("beat.suspects", worker, tx.now)


def _news(tx: Transaction, worker: str, wanted: Row | None) -> Beat:
    orders = tuple(
        Orders(id, attempt, waiting)
        for id, attempt, cell in tx.all("beat.orders", worker)
        if (waiting := tuple(order for order in orders_from_cell(cell) if not order.acknowledged))
    )
    rows = tx.all("beat.suspects", worker, tx.now)
    suspects = tuple(Suspect(*check_row(row, _SUSPECT)) for row in rows)
    watched, drain, order = wanted or (0, 0, None)
    return Beat(
        now=tx.now, orders=orders, suspects=suspects, watched=watched != 0, drain=drain != 0,
        order=worker_order(order),
    )  # fmt: skip


def report(tx: Transaction, worker: str, reports: Sequence[Report]) -> list[bool]:
    """Take reports between beats."""
    _expect(tx, worker, reports)
    return [_take(tx, worker, each) for each in reports]


def _expect(tx: Transaction, worker: str, reports: Sequence[Report]) -> None:
    """Whether these tasks are the worker's will be asked."""
    for report in reports:
        tx.prefetch("report.task", report.id, worker, report.attempt)


def _about(worker: Worker, number: int, nonce: str) -> tuple[Cell, ...]:
    return (
        worker.node,
        worker.pid,
        json_cell(list(worker.queues)),
        worker.slots,
        worker.version,
        worker.draining,
        worker.lease,
        worker.keeps,
        None if worker.handles is None else json_cell(worker.handles),
        number,
        nonce,
    )


def _renew(tx: Transaction, worker: Worker, number: int, nonce: str) -> bool:
    about, now = _about(worker, number, nonce), tx.now
    if number == 1 and tx.run("beat.first", worker.id, *about, now, now, now + worker.lease):
        return True
    return tx.run("beat", *about, now, worker.id) == 1


def _take(tx: Transaction, worker: str, report: Report) -> bool:
    """Take the news of an attempt; False if the worker does not hold it."""
    held = tx.one("report.task", report.id, worker, report.attempt)
    if held is None:
        return False
    seq, orders = held
    if report.progress is not None:
        progress = replace(report.progress, at=tx.now)
        tx.send("report.progress", [(json_cell(progress), tx.now, seq)])
    if report.checkpoint is not None:
        tx.send("report.checkpoint", [(seq, report.attempt, tx.now, report.checkpoint)])
        tx.send("report.saved", [(tx.now, seq)])
    if report.acknowledged and orders is not None:
        still_open = acknowledge(orders_from_cell(orders), report.acknowledged)
        tx.send("report.orders", [(json_cell(still_open), seq)])
    if report.log:
        _take_log(tx, seq, report)
    if report.paused is not None:
        tx.send("report.paused", [(report.paused, tx.now, seq)])
    if report.usage is not None:
        _take_usage(tx, seq, report.attempt, replace(report.usage, at=tx.now))
    if report.statistics is not None:
        _take_statistics(tx, seq, report.attempt, replace(report.statistics, at=tx.now))
    return True


def _take_usage(tx: Transaction, seq: int, attempt: int, used: Usage) -> None:
    cell = json_cell(used)
    tx.send("report.usage", [(cell, seq)])
    start, width = usage_series.slot(used.ran)
    tx.send("usage.point", [(seq, attempt, start, cell)])
    if usage_series.begins_wider_grid(start, width):
        tx.send("usage.thin", [(seq, attempt, width)])


def _take_statistics(tx: Transaction, seq: int, attempt: int, own: Statistics) -> None:
    tx.send("report.metrics", [(json_cell(latest_values(own)), tx.now, seq)])
    tx.send("usage.point", [(seq, attempt, usage_series.STATISTICS, json_cell(own))])


def _take_log(tx: Transaction, seq: int, report: Report) -> None:
    pieces = ((seq, report.attempt, piece.start, tx.now, piece.data) for piece in report.log)
    tx.send("report.log", pieces)
    end = max(piece.start + len(piece.data) for piece in report.log)
    if end > LOG_HEAD + LOG_TAIL:
        tx.send("report.log_trim", [(seq, report.attempt, LOG_HEAD, end - LOG_TAIL)])


def declare_lost(tx: Transaction, judge: str | None, silent: dict[str, int]) -> list[Task]:
    """Only a living judge declares workers lost, and only those whose number still stands."""
    if judge is not None and tx.one("reserve.worker", judge) is None:
        raise LeaseLost(f"worker {judge} is not registered, or was declared lost: it can't judge")
    ledger = Ledger(tx)
    for worker, number in silent.items():
        if tx.run("declare_lost", worker, number):
            _note_lost(tx, ledger, worker, lost.by_judge(judge))
    ledger.write()
    tx.run("declare_lost.forget")
    return [task_from_row(row) for row in tx.all("declare_lost.held")]


def attend(tx: Transaction, workers: Sequence[str], seconds: float) -> None:
    """Let their beats say that somebody watches."""
    unaware = tx.all("attend.unaware", tx.array(workers), tx.now) if tx.dialect.lock else []
    tx.run("attend", tx.now, tx.now + seconds, tx.array(workers))
    if unaware:
        tx.notify((), [id for (id,) in unaware])


def drain_worker(tx: Transaction, worker: str) -> Worker:
    """Let its beats say that it is to take no more."""
    if not tx.run("drain", worker):
        raise _unknown(worker)
    return _woken(tx, worker)


def order_worker(tx: Transaction, worker: str, order: WorkerOrder) -> Worker | None:
    """Let its beats bring the order, if nobody has given another meanwhile."""
    known = tx.one("order.last", worker)
    if known is None:
        raise _unknown(worker)
    last = worker_order(known[0])
    if order.number != (0 if last is None else last.number) + 1:
        return None
    tx.run("order", json_cell(order), worker)
    if order.grace is not None:
        tx.run("drain", worker)
    return _woken(tx, worker)


def _woken(tx: Transaction, worker: str) -> Worker:
    if tx.dialect.lock:  # where there is one writer, the row itself tells
        tx.notify((), [worker])
    [found] = [each for each in workers(tx) if each.id == worker]
    return found


def _unknown(worker: str) -> UnknownWorker:
    return UnknownWorker(f"no worker {worker!r}: `stayer workers` lists those there are")


def drop_worker(
    tx: Transaction, worker: str, number: int | None = None, is_lost: bool = False
) -> list[Task]:
    """Declare one lost by name."""
    row = tx.one("worker", worker)
    if row is None:
        raise _unknown(worker)
    last, lease_end, dead = row
    if number is not None and number != last:
        raise LeaseLost(f"worker {worker} is not this one any more: its identity is used elsewhere")
    if number is None and not dead and lease_end >= tx.now:
        raise Refused(
            f"worker {worker} is alive (its lease ends in {format_duration(lease_end - tx.now)}): "
            "only a stale one can be dropped. Stop it first"
        )
    if tx.run("declare_lost", worker, last) and (is_lost or number is None):
        ledger = Ledger(tx)
        _note_lost(tx, ledger, worker, lost.BY_SERVER if is_lost else lost.BY_OPERATOR)
        ledger.write()
    held = holdings(tx, worker)
    tx.run("declare_lost.forget")
    return held


def _note_lost(tx: Transaction, ledger: Ledger, worker: str, by: str) -> None:
    """Let people see that it is down, and why."""
    ledger.note_lost_worker(worker)
    [row] = tx.all("lost.worker", worker)
    node, pid, version, started_at, beat_at = check_row(row, _LOST)
    held = [task.id for task in holdings(tx, worker)]
    new = LostWorker(
        id=worker, node=node, pid=pid, version=version, started_at=started_at, beat_at=beat_at,
        lost_at=tx.now, by=by, running=len(held), tasks=tuple(held[: lost.MOST_TASKS]),
    )  # fmt: skip
    tx.run("lost.first")
    kept = tx.one("lost.look")
    tx.run("lost.put", lost.add(None if kept is None else str(kept[0]), new))


def holdings(tx: Transaction, worker: str, queues: Sequence[str] = ()) -> list[Task]:
    """What the worker holds, in these queues or in all."""
    held = [task_from_row(row) for row in tx.all("holdings", worker)]
    return [task for task in held if not queues or task.queue in queues]


def lost_workers(tx: Transaction) -> list[LostWorker]:
    """Those that were declared lost."""
    kept = tx.one("lost.get")
    return lost.decode(None if kept is None else str(kept[0]))


def workers(tx: Transaction) -> list[Worker]:
    """All that are not declared lost."""
    return [worker_from_row(row, tx.now) for row in tx.all("workers")]
