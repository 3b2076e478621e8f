"""`Store.commit`: apply changes where what they name still holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import UNSET

from stayer.core.lifecycle import told_late
from stayer.core.model import FINISHED, QUEUED, RUNNING, Change, State, Task
from stayer.core.notify.notices import told, words
from stayer.stores.sql import history
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.locking import lock_queue_of
from stayer.stores.sql.rows import by_seq, cells, hooks_from_cell
from stayer.stores.sql.select_limited import count_run
from stayer.stores.sql.transaction import Cell, Composed, Transaction

_OPTIONAL = (
    "held",
    "pid",
    "result",
    "error",
    "failures",
    "interruptions",
    "losses",
    "priority",
    "policy",
    "orders",
    "notify",
)
_NOT_BEFORE = {"started_at": "started_at.bounded", "finished_at": "finished_at.bounded"}
"""Nothing happens before what is known, whatever clock somebody went by."""
_LONG_WAIT = 1.0
_FENCES = {
    (revives, counted): (
        "commit.id",
        "commit.fence",
        *(("commit.unique_is_free",) if revives else ()),
        *(("commit.losses",) if counted else ()),
    )
    for revives in (False, True)
    for counted in (False, True)
}
"""What has to hold, if the task is to run again after its end, and if its losses are named."""
_NOBODY = [None, None]
"""No hooks, neither the task's nor its queue's."""


def commit(tx: Transaction, changes: Sequence[Change]) -> tuple[list[Task | None], bool]:
    """Each change by itself, then the tasks as they are now, and whether others are to hear."""
    seqs, told = apply(tx, changes)
    tasks = iter(by_seq(tx, [seq for seq in seqs if seq is not None]))
    return [None if seq is None else next(tasks) for seq in seqs], told


def delayed(changes: Sequence[Change], waited: float) -> Sequence[Change]:
    """The same, of which somebody wanted to tell so many seconds ago, while others were writing."""
    if waited < _LONG_WAIT:
        return changes
    return [told_late(change, change.ago + waited) for change in changes]


def apply(tx: Transaction, changes: Sequence[Change]) -> tuple[list[int | None], bool]:
    """The numbers of the tasks that were changed, None where nothing was done; and whether there is
    something in the outbox now.
    """
    ledger = Ledger(tx)
    seqs = [_apply(tx, change, ledger) for change in changes]
    return seqs, ledger.write()


def wait_for(tx: Transaction, seq: int, waits: Sequence[str]) -> None:
    """These are what the task waits for from now on. Should one have ended, it is told of it."""
    tx.run("waits.none", seq)
    for id in waits:
        if not tx.run("waits.again", seq, id):
            tx.run("waits.more", seq, id)
    if waits:
        named = tx.array(waits)
        tx.run("upstreams.needed", named)
        tx.run("outbox.ended", tx.now, named)


def applied(tx: Transaction, changes: Sequence[Change], ledger: Ledger) -> list[bool]:
    """As `apply`, but plain changes all at once, and the answer says only which were applied. The
    ledger is not written."""
    answers: list[bool] = []
    for group, done in tx.bulk.complete(tx, changes, ledger):
        for change in group:
            answers.append(change.id in done or _apply(tx, change, ledger) is not None)
    return answers


def _apply(tx: Transaction, change: Change, ledger: Ledger) -> int | None:
    columns = _columns(change, tx.now)
    assigned = _assigned(tuple(columns), change.order, change.to)
    before = change.state
    number, line = _line(change, tx.now, ledger)
    revives = before in FINISHED and change.to not in FINISHED
    if revives:
        lock_queue_of(tx, change.id)  # nobody else may claim its unique word now
    counted = change.losses_before is not None
    row = tx.one(
        Composed("commit", _FENCES[revives, counted], assigned),
        *columns.values(),
        line,
        change.id,
        change.state,
        change.worker,
        change.attempt,
        change.last_order,
        *((tx.now,) if revives else ()),
        *((change.losses_before,) if counted else ()),
    )
    if row is None and change.late:
        before = "pending"
        row = tx.one(
            Composed("commit", ("commit.id", "commit.returned"), assigned),
            *columns.values(),
            line,
            change.id,
            f"{change.worker} {change.attempt}",
            change.attempt,
        )
    if row is None:
        return None
    seq, queue, share, since, dependents, *notify = row
    _trace(ledger, change, number, seq, queue, before)
    if share is not None and before in RUNNING and change.to not in RUNNING:
        count_run(tx, queue, share, tx.now - change.ago - since)
    if dependents and change.to in FINISHED:
        ledger.ended_for_others(change.id, change.to)
    if change.from_start:
        tx.run("checkpoint.forget", seq)
    if change.checkpoint is not None:
        tx.run("report.checkpoint", seq, change.attempt, tx.now, change.checkpoint)
        tx.run("report.saved", tx.now, seq)
    if notify != _NOBODY and (happened := words(change)):
        hooks = [hook for cell in notify for hook in hooks_from_cell(cell)]
        ledger.heard_of(seq, number, happened, told(hooks, happened))
    if change.waits is not UNSET:
        wait_for(tx, seq, change.waits)
    elif before == "waiting" != change.to:
        wait_for(tx, seq, ())
    return int(seq)


def _line(change: Change, now: float, ledger: Ledger) -> tuple[int, str]:
    """The number of the event, 0 if it is none, and what the task's history gets."""
    event, note = _said(change)
    worker, pid = change.worker, change.pid
    ending = None if worker is None else change.ending
    if event is None and ending is None:
        return 0, ""
    number = 0 if event is None else ledger.numbers()
    return number, history.line(
        number,
        now,
        event or change.to,
        change.attempt,
        None if worker is None else True,
        note,
        ending,
        None if ending is None or change.error is UNSET else change.error,
        None,
        None if event != "started" or pid is UNSET else pid,
        now - change.ago if change.ago else None,
    )


def _trace(
    ledger: Ledger, change: Change, number: int, seq: int, queue: str, before: State
) -> None:
    attempt, worker = change.attempt, change.worker
    if change.to != before:
        ledger.moved(queue, before, change.to)
    event, note = _said(change)
    if event is not None:
        ledger.told(number, [change.id], queue, event, attempt, worker, note)
        if change.to not in FINISHED:
            ledger.grown(seq)
    if change.order:
        ledger.ordered(worker)
        ledger.woken(queue)


def _said(change: Change) -> tuple[str | None, str | None]:
    """The event, if there is one, and its note."""
    if change.to != change.state:
        if change.ending is None or change.note is None:
            return change.to, change.ending or change.note
        return change.to, f"{change.ending}: {change.note}"
    if change.note is None:
        return None, None
    event, _, note = change.note.partition(": ")
    return event, note or None


def _columns(change: Change, now: float) -> dict[str, Cell]:
    """What the change says, and what follows from where it leads."""
    columns: dict[str, Cell] = {
        "state": change.to,
        "updated": now,
        "returned_from": f"{change.worker} {change.attempt}" if change.returned else None,
    }
    for field in _OPTIONAL:
        value = getattr(change, field)
        if value is not UNSET:
            columns[field] = cells(field, value)
    if change.delay is not UNSET:
        columns["eta"] = None if change.delay is None else now + change.delay
    if change.to != change.state:
        if change.to == "started":
            columns.update(started_at=now - change.ago, start_before=None)
        elif change.to in QUEUED:
            columns.update(worker=None, node=None, pid=None, started_at=None, usage=None)
            node, wait = change.near or (None, 0.0)
            columns.update(near_node=node, near_until=None if node is None else now + wait)
        if change.state == "started":
            columns["paused"] = False
        if change.to in FINISHED:
            columns["finished_at"] = now - change.ago
            if change.fingerprint is not None:
                columns["fingerprint"] = change.fingerprint
        elif change.state in FINISHED:
            columns.update(finished_at=None, ending=None, start_before=None, fingerprint=None)
    if change.ending is not None:
        columns["ending"] = change.ending
    if change.late:
        columns["worker"] = change.worker
    if change.from_start:
        columns.update(progress=None, checkpoint_at=None)
    return columns


@lru_cache(maxsize=256)
def _assigned(columns: tuple[str, ...], order: bool, to: State) -> tuple[str, ...]:
    """What the statement for this shape of change sets; there are about a dozen."""
    bounded = _NOT_BEFORE if to not in QUEUED else {}
    return (
        *(bounded.get(column, column) for column in columns),
        *(("share.anew",) if to == "pending" else ()),
        *(("last_order.next",) if order else ()),
    )
