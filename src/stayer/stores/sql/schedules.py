"""Schedules: what the clock submits."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.model import Schedule
from stayer.stores.sql.ledger import Ledger
from stayer.stores.sql.rows import json_cell, schedule_from_row
from stayer.stores.sql.transaction import Transaction


def schedules(tx: Transaction, names: Sequence[str]) -> list[Schedule]:
    """By name."""
    rows = tx.all("schedules", not names, json_cell(list(names)))
    return [schedule_from_row(row) for row in rows]


def put_schedule(tx: Transaction, schedule: Schedule) -> Schedule:
    """Make or change one; who waits for work of its queue is to look at the clock again."""
    tx.run(
        "schedule.put",
        schedule.name,
        schedule.cron,
        schedule.zone,
        json_cell(schedule.task),
        schedule.overlap,
        schedule.catch_up,
        schedule.jitter,
        schedule.paused,
        schedule.next,
        tx.now,
    )
    tx.run("queue.make", schedule.task.queue)
    tx.run("event", tx.now, None, "", schedule.task.queue, "schedule", 0, None, schedule.name)
    ledger = Ledger(tx)
    ledger.woken(schedule.task.queue)
    ledger.write()
    return schedules(tx, [schedule.name])[0]


def advance_schedule(
    tx: Transaction,
    name: str,
    seen: float | None,
    last: float | None,
    next: float | None,
    task: str | None,
) -> bool:
    """Compare and swap."""
    return tx.run("schedule.advance", last, next, task, name, seen) == 1


def drop_schedule(tx: Transaction, name: str) -> bool:
    """Forget one."""
    return tx.run("schedule.drop", name) == 1
