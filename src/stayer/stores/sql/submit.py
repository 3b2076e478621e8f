"""`Store.submit` and `Store.submit_flow`: accept tasks, each id once."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.errors import BadInput, Refused
from stayer.core.flows import NewFlow, check
from stayer.core.model import NewTask, Submitted, Task
from stayer.store import REMEMBERED
from stayer.stores.sql.flows import add_flow, taken, tie, upstream_states, waits_for
from stayer.stores.sql.ledger import Ledger
from stayer.stores.sql.rows import json_cell, row_from_new, task_from_purged, task_from_row
from stayer.stores.sql.transaction import Row, Transaction


class IdTaken(Exception):
    """An id that was drawn at random is there already: the same submit came twice."""


def submit(tx: Transaction, tasks: Sequence[NewTask], *, trusting: bool = True) -> list[Submitted]:
    """Look up the ids that callers chose, then insert what is new, in the order given. Should one
    be to run after what has failed already, the outbox says so.

    `trusting`: ids drawn at random are not looked up; should one be there after all, raises
    IdTaken, and the transaction is to be given up.
    """
    there, purged = _there(tx, [new.id for new in tasks if not (trusting and new.generated)])
    tied = [new for new in tasks if (new.after or new.behind) and new.id not in there]
    check(tied)
    states = upstream_states(tx, tied, tasks, {id: there[id].state for id in there}) if tied else {}
    needed = {id for new in tied for id in (*new.after, *new.behind)}
    answers: list[Submitted] = []
    rows: list[Row] = []
    ledger = Ledger(tx)
    for new in tasks:
        known = there.get(new.id)
        if known is not None:
            answers.append(Submitted(known, False, new.id in purged))
            continue
        if "\0" in new.id or "\0" in new.queue:
            raise BadInput(
                f"id {new.id!r} or queue {new.queue!r} has a NUL character: leave it out"
            )
        waits = bool(new.after or new.behind) and bool(waits_for(new, states))
        number = ledger.numbers()
        row, task = row_from_new(new, tx.now, number, waits=waits, dependents=new.id in needed)
        ledger.told(number, [task.id], task.queue, task.state)
        there[new.id] = task
        rows.append(row)
        answers.append(Submitted(task, True))
        ledger.moved(task.queue, None, task.state)
        # A new eta may be the next one due: those who sleep until then should look again.
        ledger.woken(task.queue)
    if rows:
        if tx.many("submit", rows) < len(rows):
            raise IdTaken
        ledger.write()
    if tied:
        tie(tx, tied, states)
    return answers


def submit_flow(tx: Transaction, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
    """All of it, if it is not there; else nothing."""
    if not add_flow(tx, flow):
        return False
    known = [each.task.id for each in submit(tx, tasks, trusting=False) if not each.fresh]
    if known:
        raise Refused(taken(known))
    return True


def _there(tx: Transaction, ids: list[str]) -> tuple[dict[str, Task], set[str]]:
    """The tasks that are or were there, and which of them are purged."""
    if not ids:
        return {}, set()
    wanted = json_cell(ids)
    there = {row[0]: task_from_row(row) for row in tx.all("get", wanted)}
    purged = {row[0]: row for row in tx.all("submit.purged", wanted, tx.now - REMEMBERED)}
    for id in purged.keys() - there.keys():
        there[id] = task_from_purged(purged[id])
    if fresh := [id for id in ids if id not in there]:
        tx.run("submit.forgotten", json_cell(fresh))
    return there, set(purged)
