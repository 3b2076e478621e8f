"""`Store.reserve` and `Store.promote`: what a worker gets, and what becomes due."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fnmatch import fnmatchcase

from stayer.core.errors import LeaseLost
from stayer.core.model import EVERYTHING, Handles, Task
from stayer.stores.sql.flows import relay
from stayer.stores.sql.ledger import Ledger
from stayer.stores.sql.rows import by_seq, json_cell
from stayer.stores.sql.transaction import Transaction


def reserve(
    tx: Transaction, worker: str, queues: Sequence[str], limit: int, handles: Handles
) -> list[Task]:
    """Queue by queue, the best of the lanes that the worker can run."""
    registered = tx.one("reserve.worker", worker)
    if registered is None:
        raise LeaseLost(
            f"worker {worker} is not registered, or was given up as dead: it may take no tasks"
        )
    tasks: list[Task] = []
    ledger = Ledger(tx)
    for queue in queues:
        left = min(limit - len(tasks), _room(tx, queue, limit))
        if left <= 0:
            continue
        seqs = best(tx, queue, left, handles)
        if not seqs:
            continue
        taken = json_cell(seqs)
        tx.run("reserve", tx.now, worker, registered[0], taken)
        tx.run("reserve.attempts", tx.now, taken)
        fresh = by_seq(tx, seqs)
        for seq, task in zip(seqs, fresh, strict=True):
            ledger.event(seq, task.id, queue, "reserved", task.attempt, worker)
        tasks += fresh
        ledger.moved(queue, "pending", "reserved", len(seqs))
    if tasks:
        ledger.write()
    return tasks


def best(tx: Transaction, queue: str, limit: int, handles: Handles) -> list[int]:
    """The next tasks of a queue, best first, from all lanes that are handled."""
    lanes = [lane for (lane,) in tx.all("reserve.lanes", queue) if _handled(lane, handles)]
    heads = [tx.all("reserve.next", queue, lane, limit) for lane in lanes]
    ordered = heads[0] if len(heads) == 1 else heapq.merge(*heads)
    return [seq for _, (_, _, seq) in zip(range(limit), ordered, strict=False)]


def promote(tx: Transaction, limit: int) -> float | None:
    """Due tasks become pending, the longest due first; dependents hear of what has ended."""
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


def _handled(lane: str, handles: Handles) -> bool:
    if handles is EVERYTHING:
        return True
    form, _, word = lane.partition(" ")
    match form:
        case "name":
            return any(fnmatchcase(word, pattern) for pattern in handles.names)
        case "command":
            return any(fnmatchcase(word, pattern) for pattern in handles.programs)
        case _:
            return handles.plain
