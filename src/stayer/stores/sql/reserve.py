"""`Store.reserve` and `Store.promote`: what a worker gets, and what becomes due."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from stayer.core.errors import LeaseLost
from stayer.core.lanes import handled
from stayer.core.lifecycle import Expire, decide
from stayer.core.model import Handles, Task
from stayer.stores.sql import history
from stayer.stores.sql.commit import apply
from stayer.stores.sql.flows import relay
from stayer.stores.sql.ledger import Ledger
from stayer.stores.sql.rows import json_cell, just_reserved, task_from_row
from stayer.stores.sql.transaction import Transaction

_attempt = attrgetter("attempt")


def reserve(
    tx: Transaction, worker: str, queues: Sequence[str], limit: int, handles: Handles
) -> list[Task]:
    """Queue by queue, the best of the lanes that the worker can run."""
    registered = tx.one("reserve.worker", worker)
    if registered is None:
        raise LeaseLost(
            f"worker {worker} is not registered, or was given up as dead: it may take no tasks"
        )
    node, drains = registered
    if drains:
        return []
    tasks: list[Task] = []
    ledger = Ledger(tx)
    for queue in queues:
        left = min(limit - len(tasks), _room(tx, queue, limit))
        if left <= 0:
            continue
        seqs = best(tx, queue, left, handles)
        if not seqs:
            continue
        tasks += _take(tx, seqs, queue, worker, node, ledger)
        ledger.moved(queue, "pending", "reserved", len(seqs))
    if tasks:
        ledger.write()
    return tasks


def _take(
    tx: Transaction, seqs: list[int], queue: str, worker: str, node: str, ledger: Ledger
) -> list[Task]:
    """The tasks of a queue, now held by the worker."""
    first = ledger.numbers(len(seqs))
    before, behind = history.around_attempt(tx.now, worker, node)
    tx.run("reserve", tx.now, worker, node, first, before, behind, json_cell(seqs))
    tasks = just_reserved(tx, seqs, queue, worker, node)
    number = first
    for attempt, alike in groupby(tasks, key=_attempt):
        ids = [task.id for task in alike]
        ledger.told(number, ids, queue, "reserved", attempt, worker)
        if attempt > 1:
            for position in range(number - first, number - first + len(ids)):
                ledger.grown(seqs[position])
        number += len(ids)
    return tasks


def best(tx: Transaction, queue: str, limit: int, handles: Handles) -> list[int]:
    """The next tasks of a queue, best first, from all lanes that are handled."""
    lanes = [lane for (lane,) in tx.all("reserve.lanes", queue) if handled(lane, handles)]
    heads = [tx.all("reserve.next", queue, lane, tx.now, limit) for lane in lanes]
    ordered = heads[0] if len(heads) == 1 else heapq.merge(*heads)
    return [seq for _, (_, _, seq) in zip(range(limit), ordered, strict=False)]


def promote(tx: Transaction, limit: int) -> float | None:
    """Due tasks become pending, the longest due first; those that nobody has started in time end;
    dependents hear of what has ended.
    """
    overdue = [task_from_row(row) for row in tx.all("promote.expired", tx.now, limit)]
    if overdue:
        apply(tx, [decide(task, Expire()) for task in overdue])
    relay(tx, limit)
    due = tx.all("promote.due", tx.now, limit)
    if due:
        tx.run("promote", tx.now, json_cell([row[0] for row in due]))
        ledger = Ledger(tx)
        for seq, id, queue, attempt in due:
            ledger.event(seq, id, queue, "pending", attempt, None, "due")
            ledger.moved(queue, "scheduled", "pending")
        ledger.write()
    following = tx.one("promote.next")
    return following[0] if following else None


def _room(tx: Transaction, queue: str, enough: int) -> int:
    settings = tx.one("reserve.queue", queue)
    if settings is None or settings[0]:
        return 0
    return enough if settings[1] is None else int(settings[1])
