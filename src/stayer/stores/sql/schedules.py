"""Schedules: what the clock submits."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.errors import Refused
from stayer.core.schedules.model import Firing, Schedule, explain_conflict, pack_task
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import schedule_from_row
from stayer.stores.sql.submit import submit
from stayer.stores.sql.transaction import Transaction


def schedules(tx: Transaction, names: Sequence[str] = ()) -> list[Schedule]:
    """By name."""
    rows = tx.all("schedules", not names, tx.array(names))
    return [schedule_from_row(row) for row in rows]


def due_schedules(tx: Transaction, limit: int) -> list[Schedule]:
    """The longest due first."""
    return [schedule_from_row(row) for row in tx.all("schedules.due", tx.now, limit)]


def put_schedule(tx: Transaction, schedule: Schedule, seen: float | None = None) -> Schedule:
    """Make or change one; who waits for work of its queue is to look at the clock again."""
    queue = schedule.task.queue
    if seen is not None and [each.updated for each in schedules(tx, [schedule.name])] != [seen]:
        raise Refused(explain_conflict(schedule.name))
    tx.run(
        "schedule.put", schedule.name, schedule.cron, schedule.zone, pack_task(schedule.task),
        schedule.overlap, schedule.catch_up, float(schedule.jitter), schedule.paused,
        schedule.origin, schedule.next, tx.now,
    )  # fmt: skip
    ledger = Ledger(tx)
    ledger.add_events(ledger.numbers(), [""], queue, "schedule", note=schedule.name)
    ledger.note_wake_up(queue)
    ledger.write()
    return schedules(tx, [schedule.name])[0]


def fire(tx: Transaction, firing: Firing) -> bool:
    """Compare and swap, and with it the tasks."""
    swapped = tx.run(
        "schedule.fire", firing.last, firing.next, firing.waiting, firing.name, firing.updated,
        firing.seen,
    )  # fmt: skip
    if swapped and firing.tasks:
        submitted = submit(tx, firing.tasks, trusting=False)
        pairs = zip(firing.tasks, submitted, strict=True)
        # A task that holds the unique word of one is not the schedule's.
        own = [new.id for new, answer in pairs if answer.task.id == new.id]
        if own:
            tx.run("schedule.newest", own[-1], firing.name)
    return swapped == 1


def drop_schedule(tx: Transaction, name: str) -> bool:
    """Forget one."""
    return tx.run("schedule.drop", name) == 1
