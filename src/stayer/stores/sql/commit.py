"""`Store.commit`: apply changes where what they name still holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import UNSET

from stayer.core.lifecycle import told_late
from stayer.core.model import AttemptNews, Change, State, Task
from stayer.core.notify.notices import told
from stayer.stores.sql import history
from stayer.stores.sql.bulk_complete import complete, groups
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import SHARE, by_seq, cells, hooks_from_cell, json_cell
from stayer.stores.sql.select_limited import count_run
from stayer.stores.sql.transaction import Cell, Row, Transaction

_RETURNING = (
    " RETURNING seq, queue, share, reserved_at, dependents, notify, "
    "(SELECT q.notify FROM stayer_queues AS q WHERE q.name = stayer_tasks.queue)"
)
_NOT_BEFORE = "coalesce(started_at, reserved_at, 0)"
"""Nothing happens before what is known, whatever clock somebody went by."""
_LONG_WAIT = 1.0
_NO_NEWS = AttemptNews()
_NOBODY = [None, None]
"""No hooks, neither the task's nor its queue's."""
_NOT_TAKEN = (
    ' AND ("unique" IS NULL OR NOT EXISTS (SELECT 1 FROM stayer_tasks AS h WHERE '
    'h.queue = stayer_tasks.queue AND h."unique" = stayer_tasks."unique" AND h.unique_end > ? '
    "AND h.seq <> stayer_tasks.seq))"
)
"""What has ended and is to run again must not meet another that holds its unique word."""


def commit(tx: Transaction, changes: Sequence[Change]) -> tuple[list[Task | None], bool]:
    """Each change by itself, then the tasks as they are now, and whether others are to hear."""
    seqs, told = apply(tx, changes)
    tasks = iter(by_seq(tx, [seq for seq in seqs if seq is not None]))
    return [None if seq is None else next(tasks) for seq in seqs], told


def delayed(changes: Sequence[Change], waited: float) -> Sequence[Change]:
    """Date changes back by how long somebody has waited to tell of them, while others wrote."""
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
        named = json_cell(list(waits))
        tx.run("upstreams.needed", named)
        tx.run("outbox.ended", tx.now, named)


def applied(tx: Transaction, changes: Sequence[Change], ledger: Ledger) -> list[bool]:
    """Apply changes, plain ones all at once; the answer says only which were applied. The ledger is
    not written.
    """
    answers: list[bool] = []
    for group in groups(changes):
        done = complete(tx, group, ledger) if len(group) > 1 else frozenset()
        for change in group:
            answers.append(change.id in done or _apply(tx, change, ledger) is not None)
    return answers


def _apply(tx: Transaction, change: Change, ledger: Ledger) -> int | None:
    """Apply the effect of a change, if what it names still holds; the number of its task."""
    effect = change.effect
    number, line = _line(change, tx.now, ledger)
    found = _update(tx, change, line)
    if found is None:
        return None
    before, (seq, queue, share, since, dependents, *notify) = found
    _trace(ledger, change, number, seq, queue, before)
    if effect.ends_run and before == change.state and share is not None:
        count_run(tx, queue, share, tx.now - change.ago - since)
    if effect.ends and dependents:
        ledger.ended_for_others(change.id, effect.to)
    if effect.forgets_checkpoint:
        tx.run("checkpoint.forget", seq)
    if change.checkpoint is not None:
        tx.run("report.checkpoint", seq, change.attempt, tx.now, change.checkpoint)
    if notify != _NOBODY and effect.hook_words:
        hooks = [hook for cell in notify for hook in hooks_from_cell(cell)]
        ledger.heard_of(seq, number, effect.hook_words, told(hooks, effect.hook_words))
    if effect.waits is not UNSET:
        wait_for(tx, seq, effect.waits)
    return int(seq)


def _update(tx: Transaction, change: Change, line: str) -> tuple[State, Row] | None:
    """Write what becomes of the task and its history; the state that it was in, and what the rest
    needs to know. None: what the change names does not hold any more.
    """
    effect = change.effect
    values = _values(change, tx.now)
    update = _statement(tuple(effect.sets), tuple(effect.times), effect.moment, effect.enters_lane,
                        change.result is not UNSET)  # fmt: skip
    counted = change.losses_before is not None
    row = tx.one(
        f"{update} AND state = ? AND worker IS ? AND attempt = ? AND last_order = ?"
        f"{_NOT_TAKEN if change.unique_is_free else ''}{' AND losses = ?' if counted else ''}"
        f"{_RETURNING}",
        *values,
        line,
        change.id,
        change.state,
        change.worker,
        change.attempt,
        change.last_order,
        *((tx.now,) if change.unique_is_free else ()),
        *((change.losses_before,) if counted else ()),
    )
    if row is not None or not change.late:
        return None if row is None else (change.state, row)
    row = tx.one(
        f"{update} AND state = 'pending' AND returned_from = ? AND attempt = ?{_RETURNING}",
        *values,
        line,
        change.id,
        f"{change.worker} {change.attempt}",
        change.attempt,
    )
    return None if row is None else ("pending", row)


def _line(change: Change, now: float, ledger: Ledger) -> tuple[int, str]:
    """The number of the event, 0 if it is none, and what the task's history gets."""
    effect = change.effect
    if effect.event is None:
        return 0, ""
    news = effect.attempt or _NO_NEWS
    number = ledger.numbers()
    return number, history.line(
        number,
        now,
        effect.event,
        change.attempt,
        None if change.worker is None else True,
        effect.note,
        news.ending,
        news.error,
        None,
        news.pid,
        now - change.ago if change.ago else None,
    )


def _trace(
    ledger: Ledger, change: Change, number: int, seq: int, queue: str, before: State
) -> None:
    effect = change.effect
    if effect.to != before:
        ledger.moved(queue, before, effect.to)
    if effect.event is not None:
        ledger.told(
            number, [change.id], queue, effect.event, change.attempt, change.worker, effect.note
        )
        if not effect.ends:
            ledger.grown(seq)
    if effect.wakes_queue:
        ledger.woken(queue)
    if effect.wakes_worker:
        ledger.ordered(change.worker)


def _values(change: Change, now: float) -> list[Cell]:
    """The values of the columns that the statement for a change sets, in its order."""
    effect = change.effect
    values: list[Cell] = [effect.to]
    values += [cells(field, value) for field, value in effect.sets.items()]
    values += [now + seconds for seconds in effect.times.values()]
    if effect.moment is not None:
        values.append(now - change.ago)
    if change.result is not UNSET:
        values.append(cells("result", change.result))
    return values


@lru_cache(maxsize=256)
def _statement(
    sets: tuple[str, ...],
    times: tuple[str, ...],
    moment: str | None,
    enters_lane: bool,
    has_result: bool,
) -> str:
    """The statement for this shape of change; there are about two dozen."""
    assignments = [f"{column} = ?" for column in ("state", *sets, *times)]
    if moment is not None:
        assignments.append(f"{moment} = max(?, {_NOT_BEFORE})")
    if has_result:
        assignments.append("result = ?")
    if enters_lane:
        assignments.append(f"share = {SHARE}")
    joined = ", ".join(assignments)
    return f"UPDATE stayer_tasks SET {joined}, history = history || ? WHERE id = ?"
