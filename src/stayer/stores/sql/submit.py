"""`Store.submit` and `Store.submit_flow`: accept tasks, each id once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stayer.core.errors import BadInput, Refused
from stayer.core.flows.model import NewFlow, check, explain_unique_conflict
from stayer.core.model import NewTask, Submitted, Task
from stayer.core.submit.defaults import with_defaults
from stayer.store import REMEMBERED
from stayer.stores.sql.flows import add_flow, explain_taken_ids, tie, upstream_states, waits_for
from stayer.stores.sql.locking import lock_words
from stayer.stores.sql.rows import task_from_purged, task_from_row
from stayer.stores.sql.transaction import Transaction


class IdTaken(Exception):
    """What was taken for granted is not so: an id that was drawn at random is there already, for
    the same submit came twice; or a queue has defaults."""


def submit(tx: Transaction, tasks: Sequence[NewTask], *, trusting: bool = True) -> list[Submitted]:
    """Look up the ids that callers chose, then insert what is new, in the order given. Should one
    be to run after what has failed already, the outbox says so.

    `trusting`: ids drawn at random are not looked up, nor, maybe, whether queues still have no
    defaults. Should one be there after all, raises IdTaken, and the transaction is to be given up.
    """
    for new in tasks:
        if new.eta is not None and not math.isfinite(new.eta):
            raise BadInput(f"eta {new.eta}: give epoch seconds")
    chosen = [new.id for new in tasks if not (trusting and new.generated)]
    queues = sorted({new.queue for new in tasks})
    defaults: dict[str, str] = {}
    if chosen or not tx.bulk.expect_no_defaults(tx, queues):
        tx.prefetch("queue.defaults", tx.array(queues))
        there, purged = _there(tx, chosen)
        defaults = dict(tx.all("queue.defaults", tx.array(queues)))
        tx.bulk.see_defaults(queues, defaults)
    else:
        there, purged = {}, set()
    if defaults:
        tasks = [with_defaults(new, defaults.get(new.queue, "")) for new in tasks]
    tied = [new for new in tasks if (new.after or new.behind) and new.id not in there]
    check(tied)
    states = upstream_states(tx, tied, tasks, {id: there[id].state for id in there}) if tied else {}
    needed = {id for new in tied for id in (*new.after, *new.behind)}
    holders = _holders(tx, tasks)
    answers: list[Submitted] = []
    births = tx.bulk.births(tx)
    for new in tasks:
        known = there.get(new.id)
        if known is not None:
            answers.append(Submitted(known, False, new.id in purged))
            continue
        word = (new.queue, new.unique)
        if word in holders:
            answers.append(Submitted(holders[word], False))
            continue
        waits = bool(new.after or new.behind) and bool(waits_for(new, states))
        task = there[new.id] = births.add(new, waits, new.id in needed)
        if new.unique is not None:
            holders[word] = task
        answers.append(Submitted(task, True))
    if not births.write():
        raise IdTaken
    if tied:
        tie(tx, _accepted(tied, tasks, answers, needed), states)
    return answers


def _accepted(
    tied: Sequence[NewTask],
    tasks: Sequence[NewTask],
    answers: Sequence[Submitted],
    needed: set[str],
) -> list[NewTask]:
    """Those that no holder of their unique word has kept out; Refused if others wait for such."""
    out = {
        new.id: answer.task
        for new, answer in zip(tasks, answers, strict=True)
        if not answer.fresh and answer.task.id != new.id
    }
    for id in out.keys() & needed:
        raise Refused(explain_unique_conflict(id, out[id].id))
    return [new for new in tied if new.id not in out]


def submit_flow(tx: Transaction, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
    """All of it, if it is not there; else nothing."""
    if not add_flow(tx, flow):
        return False
    answers = submit(tx, tasks, trusting=False)
    for new, answer in zip(tasks, answers, strict=True):
        if not answer.fresh and answer.task.id != new.id:
            raise Refused(explain_unique_conflict(new.id, answer.task.id))
    known = [each.task.id for each in answers if not each.fresh]
    if known:
        raise Refused(explain_taken_ids(known))
    return True


def _there(tx: Transaction, ids: list[str]) -> tuple[dict[str, Task], set[str]]:
    """The tasks that are or were there, and which of them are purged."""
    if not ids:
        return {}, set()
    wanted = tx.array(ids)
    # In this order: one that is purged meanwhile must be found by one of them.
    tx.prefetch("get", wanted)
    tx.prefetch("submit.purged", wanted, tx.now - REMEMBERED)
    there = {row[0]: task_from_row(row) for row in tx.all("get", wanted)}
    purged = {row[0]: row for row in tx.all("submit.purged", wanted, tx.now - REMEMBERED)}
    for id in purged.keys() - there.keys():
        there[id] = task_from_purged(purged[id])
    if fresh := [id for id in ids if id not in there]:
        tx.run("submit.forgotten", tx.array(fresh))
    return there, set(purged)


def _holders(tx: Transaction, tasks: Sequence[NewTask]) -> dict[tuple[str, str | None], Task]:
    """Which tasks hold the unique words that these ask for."""
    wanted = [(new.queue, new.unique) for new in tasks if new.unique is not None]
    if not wanted:
        return {}
    queues, words = [queue for queue, _ in wanted], [word for _, word in wanted]
    lock_words(tx, queues, words)
    rows = tx.all("submit.holders", tx.now, tx.array(queues), tx.array(words))
    found = map(task_from_row, rows)
    return {(task.queue, task.unique): task for task in found}
