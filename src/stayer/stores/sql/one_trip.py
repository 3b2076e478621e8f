"""A change of one task in one round trip, where nothing has to be asked on the way.

What the long way (`commit.py`) finds out between its statements, for example whether others wait
for the task, is a condition of the statement here. So either all of it is done, and committed with
the same message, or nothing, and the long way is taken. Both leave the same behind.
"""

from __future__ import annotations

from msgspec import UNSET

from stayer.core.model import Change, Task
from stayer.stores.sql import history
from stayer.stores.sql.commit import columns_of, fence_values, values_of
from stayer.stores.sql.journal import differences, wakes
from stayer.stores.sql.rows import json_cell, task_from_row
from stayer.stores.sql.transaction import Composed, Transaction

STATEMENT = "commit.whole"


def is_plain(change: Change) -> bool:
    """Whether a change may need no more than its task, its event and the counters."""
    return (
        not change.unique_is_free
        and not change.effect.forgets_checkpoint
        and change.checkpoint is None
        and change.effect.waits is UNSET
    )


def moves_on(change: Change) -> bool:
    """Whether what a change names does not hold any more once it is applied: so of two who apply
    it, one does.
    """
    return change.effect.to != change.state or "last_order" in change.effect.sets


def commit_whole(tx: Transaction, change: Change, line: str) -> Task | None:
    """Apply a plain change, with its line of history, and commit; the task as it is then. None:
    nothing is done, for what the change names does not hold, or there is more to do than this can.
    """
    effect = change.effect
    moved = [0] * 8 if effect.to == change.state else differences(change.state, effect.to)
    is_long = effect.event is not None and not effect.ends
    tx.commit_with_next()
    row = tx.one(
        Composed(STATEMENT, _conditions(change, is_long), columns_of(change)),
        *values_of(change, tx.now, tx.dialect),
        line,
        *fence_values(change),
        *((history.LONGEST - len(line.encode()),) if is_long else ()),
        tx.now,
        json_cell([change.id]),
        effect.event,
        change.attempt,
        change.worker,
        effect.note,
        effect.event is not None,
        *moved,
        any(moved),
    )
    if row is None:
        return None
    task = task_from_row(row)
    tx.notify(
        [task.queue] if wakes(change.state, effect.to) or effect.wakes_queue else (),
        [change.worker] if effect.wakes_worker and change.worker is not None else (),
    )
    return task


def _conditions(change: Change, is_long: bool) -> tuple[str, ...]:
    effect = change.effect
    return (
        "commit.id",
        "commit.fence",
        *(("commit.losses",) if change.losses_before is not None else ()),
        *(("whole.short",) if is_long else ()),
        *(("whole.last",) if effect.ends else ()),
        *(("whole.uncounted",) if effect.ends_run else ()),
        *(("whole.unheard",) if effect.hook_words else ()),
    )
