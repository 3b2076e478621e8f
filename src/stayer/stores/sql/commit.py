"""`Store.commit`: apply changes where what they name still holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import UNSET

from stayer.core.lifecycle import date_back
from stayer.core.model import AttemptNews, Change, State, Task
from stayer.core.notify.notices import list_targets
from stayer.stores.sql import history
from stayer.stores.sql.dialect import Dialect
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.locking import lock_word_of
from stayer.stores.sql.rows import by_seq, changed_cell, hooks_from_cell
from stayer.stores.sql.select_limited import count_run
from stayer.stores.sql.transaction import Cell, Composed, Row, Transaction

_LONG_WAIT_S = 1.0
_NO_NEWS = AttemptNews()
_NOBODY = [None, None]
"""No hooks, neither the task's nor its queue's."""
_FENCES = {
    (again, counted): (
        "commit.id",
        "commit.fence",
        *(("commit.unique_is_free",) if again else ()),
        *(("commit.losses",) if counted else ()),
    )
    for again in (False, True)
    for counted in (False, True)
}
"""What has to hold, if the task is to run again after its end, and if its losses are named."""
_RETURNED = ("commit.id", "commit.returned")


def commit(tx: Transaction, changes: Sequence[Change]) -> tuple[list[Task | None], bool]:
    """Apply each change by itself. Return the tasks as they are now, None where what a change names
    does not hold any more, and whether the outbox has something to relay.
    """
    seqs, has_news = apply(tx, changes)
    changed = [seq for seq in seqs if seq is not None]
    if changed:
        tx.commit_with_next()
    tasks = iter(by_seq(tx, changed))
    return [None if seq is None else next(tasks) for seq in seqs], has_news


def date_back_all(changes: Sequence[Change], waited: float) -> Sequence[Change]:
    """Date changes back by how long somebody has waited to tell of them, while others wrote."""
    if waited < _LONG_WAIT_S:
        return changes
    return [date_back(change, change.ago + waited) for change in changes]


def apply(tx: Transaction, changes: Sequence[Change]) -> tuple[list[int | None], bool]:
    """Apply changes. Return the numbers of the tasks that were changed, None where nothing was
    done; and whether there is something in the outbox now.
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
        need(tx, waits)


def need(tx: Transaction, upstreams: Sequence[str]) -> None:
    """Let these know that others wait for them; of those that have ended already, the outbox."""
    named = tx.array(upstreams)
    if tx.dialect.lock:
        tx.all("upstreams.there", named)  # none of them ends before it is known who waits
    tx.run("upstreams.needed", named)
    tx.run("outbox.ended", tx.now, named)


def apply_changes(tx: Transaction, changes: Sequence[Change], ledger: Ledger) -> list[bool]:
    """Apply changes, plain ones all at once; the answer says only which were applied. The ledger is
    not written.
    """
    answers: list[bool] = []
    for group, done in tx.bulk.complete(tx, changes, ledger):
        for change in group:
            answers.append(change.id in done or _apply(tx, change, ledger) is not None)
    return answers


def _apply(tx: Transaction, change: Change, ledger: Ledger) -> int | None:
    """Apply the effect of a change, if what it names still holds; the number of its task."""
    effect = change.effect
    number, line = line_of(change, tx.now, ledger)
    found = _update(tx, change, line)
    if found is None:
        return None
    before, (seq, queue, share, since, dependents, length, *notify) = found
    _trace(ledger, change, number, seq, queue, before)
    # Some databases tell the length before the line, some after it: a look more does no harm.
    if effect.event is not None and not effect.ends and length + len(line) > history.LONGEST // 2:
        ledger.grown(seq)
    # Without `since` its row was damaged, and has been repaired.
    if effect.ends_run and before == change.state and None not in (share, since):
        count_run(tx, queue, share, tx.now - change.ago - since)
    if effect.ends and dependents:
        ledger.ended_for_others(change.id, effect.to)
    if effect.forgets_checkpoint:
        tx.run("checkpoint.forget", seq)
    if change.checkpoint is not None:
        tx.run("report.checkpoint", seq, change.attempt, tx.now, change.checkpoint)
    if notify != _NOBODY and effect.hook_words:
        hooks = [hook for cell in notify for hook in hooks_from_cell(cell)]
        ledger.heard_of(seq, number, effect.hook_words, list_targets(hooks, effect.hook_words))
    if effect.waits is not UNSET:
        wait_for(tx, seq, effect.waits)
    return int(seq)


def _update(tx: Transaction, change: Change, line: str) -> tuple[State, Row] | None:
    """Write what becomes of the task and its history; the state that it was in, and what the rest
    needs to know. None: what the change names does not hold any more.
    """
    values = values_of(change, tx.now, tx.dialect)
    columns = columns_of(change)
    if change.unique_is_free:
        lock_word_of(tx, change.id)  # nobody else may claim its unique word meanwhile
    counted = change.losses_before is not None
    row = tx.one(
        Composed("commit", _FENCES[change.unique_is_free, counted], columns),
        *values,
        line,
        *fence_values(change, *((tx.now,) if change.unique_is_free else ())),
    )
    if row is not None or not change.late:
        return None if row is None else (change.state, row)
    row = tx.one(
        Composed("commit", _RETURNED, columns),
        *values,
        line,
        change.id,
        f"{change.worker} {change.attempt}",
        change.attempt,
    )
    return None if row is None else ("pending", row)


def line_of(change: Change, now: float, ledger: Ledger) -> tuple[int, str]:
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
        ledger.note_move(queue, before, effect.to)
    if effect.event is not None:
        ledger.add_events(
            number, [change.id], queue, effect.event, change.attempt, change.worker, effect.note
        )
    if effect.wakes_queue:
        ledger.note_wake_up(queue)
    if effect.wakes_worker:
        ledger.note_order(change.worker)


def values_of(change: Change, now: float, dialect: Dialect) -> list[Cell]:
    """The values of the columns that the statement for a change sets, in its order."""
    effect = change.effect
    values: list[Cell] = [effect.to]
    values += [changed_cell(field, value) for field, value in effect.sets.items()]
    values += [now + seconds for seconds in effect.times.values()]
    if effect.moment is not None:
        values.append(now - change.ago)
    if change.result is not UNSET:
        values.append(dialect.value_cell(changed_cell("result", change.result)))
    if change.parameters is not UNSET:
        values.append(dialect.value_cell(changed_cell("parameters", change.parameters)))
    return values


def fence_values(change: Change, *now: float) -> list[Cell]:
    """What the conditions of `_FENCES` ask for."""
    losses = () if change.losses_before is None else (change.losses_before,)
    named = change.id, change.state, change.worker, change.attempt, change.last_order
    return [*named, *now, *losses]


def columns_of(change: Change) -> tuple[str, ...]:
    """What the statement for a change sets."""
    effect = change.effect
    return _columns(tuple(effect.sets), tuple(effect.times), effect.moment, effect.enters_lane,
                    change.result is not UNSET, change.parameters is not UNSET)  # fmt: skip


@lru_cache(maxsize=256)
def _columns(
    sets: tuple[str, ...],
    times: tuple[str, ...],
    moment: str | None,
    enters_lane: bool,
    has_result: bool,
    has_parameters: bool,
) -> tuple[str, ...]:
    """What the statement for this shape of change sets; there are about two dozen."""
    return (
        "state",
        *sets,
        *times,
        *(() if moment is None else (f"{moment}.bounded",)),
        *(("result",) if has_result else ()),
        *(("parameters",) if has_parameters else ()),
        *(("share.anew",) if enters_lane else ()),
    )
