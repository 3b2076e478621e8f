"""Queues' settings, and forgetting: `set_queue`, `drop_queue`, `purge`."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.errors import Refused, UnknownQueue
from stayer.core.model import State
from stayer.core.ordering.fair_share import FORGOTTEN
from stayer.core.queue_model import QueueInfo, QueueSettings
from stayer.core.queue_settings import merge_key_limits
from stayer.core.submit import defaults
from stayer.store import REMEMBERED
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.locking import keep_settings
from stayer.stores.sql.reads import queues
from stayer.stores.sql.rows import json_cell
from stayer.stores.sql.transaction import UNCLAIMED, Row, Transaction

_TRACES_KEPT = 86400.0
"""How long the event that a task was deleted stays, for those who watch."""


def set_queue(tx: Transaction, name: str, settings: QueueSettings) -> QueueInfo:
    """Change what is given."""
    tx.run("queue.make", name)
    keep_settings(tx, name)
    if "paused" in settings:
        _tell(tx, name, "paused" if settings["paused"] else "resumed", wake=True)
        tx.run("queue.pause", settings["paused"], name)
    changed = _limits(tx, name, settings)
    if changed:
        _tell(tx, name, "limited", wake=True)
    for statement, *values in changed:
        tx.run(statement, *values, name)
    if asked := settings.get("defaults"):
        row = tx.one("queue.defaults", tx.array([name]))
        known = {} if row is None else defaults.read_defaults(row[1])
        tx.run(
            "queue.set_defaults",
            defaults.write_defaults(defaults.merge(known, asked)) or None,
            name,
        )
        _tell(tx, name, "defaults")
    [queue] = queues(tx, [name])
    retention = settings.get("retention")
    if not retention:
        return queue
    both = {**queue.retention, **retention}
    kept = {what: seconds for what, seconds in both.items() if seconds is not None}
    _tell(tx, name, "retention")
    tx.run("queue.retention", json_cell(kept) if kept else None, name)
    return queues(tx, [name])[0]


def _limits(tx: Transaction, name: str, settings: QueueSettings) -> list[Row]:
    """The statements for what is to be changed, each with its values."""
    changed: list[Row] = []
    if "limit" in settings:
        changed.append(("queue.limit", settings["limit"]))
    if "key_limit" in settings:
        changed.append(("queue.key_limit", settings["key_limit"]))
    if single := settings.get("key_limits"):
        [queue] = queues(tx, [name])
        kept = merge_key_limits(queue.key_limits, single)
        changed.append(("queue.key_limits", json_cell(kept) if kept else None))
    if "rate" in settings:
        rate = settings["rate"]
        changed.append(("queue.rate", rate and rate.count, rate and rate.per))
    if "notify" in settings:
        changed.append(("queue.notify", json_cell(settings["notify"])))
    if "fair" in settings:
        changed.append(("queue.fair", settings["fair"]))
    return changed


def drop_queue(tx: Transaction, name: str, limit: int) -> int:
    """A part of the queue's tasks, then the queue."""
    if tx.dialect.lock and tx.one("queue.there", name) is not None:
        keep_settings(tx, name)
    running = tx.one("queue.running", name)
    if running is None:
        raise UnknownQueue(f"no queue {name!r}: `stayer queues` lists those there are")
    if running[0]:
        raise Refused(
            f"queue {name} has {running[0]} running tasks: cancel them and wait for their end first"
        )
    tx.run("queue.pause", True, name)
    seqs = [row[0] for row in tx.all("queue.tasks", name, limit)]
    delete(tx, seqs)
    left = tx.one("queue.left", name)
    # With no task found there is none, whatever the counters say: rows may have been replaced by
    # hand, of which no trigger hears.
    is_empty = not seqs and not tx.all("queue.tasks" + UNCLAIMED, name, 1)
    if left is None or not left[0] or is_empty:
        tx.run("queue.drop", name)
        tx.run("queue.drop_shares", name)
        return 0
    return int(left[0])


def purge(
    tx: Transaction, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
) -> list[str]:
    """Some finished tasks, and with them what was remembered for long enough."""
    rows: list[Row] = []
    if ids is not None:
        rows = tx.all("purge.these", tx.array(ids), tx.array(states), before, limit)
    else:
        rows = find_old(tx, [name for (name,) in tx.all("queue.names")], states, before, limit)
    delete(tx, [seq for seq, _ in rows])
    forget_traces(tx)
    return [id for _, id in rows]


def forget_traces(tx: Transaction) -> None:
    """Of tasks that are gone: what was remembered for long enough."""
    tx.run("purge.forget", tx.now - REMEMBERED)
    tx.run("shares.forget", tx.now - FORGOTTEN)
    tx.run("purge.events", tx.now - _TRACES_KEPT)


def find_old(
    tx: Transaction,
    queues: Sequence[str],
    states: Sequence[State],
    before: float,
    limit: int,
    *,
    claim: bool = True,
) -> list[Row]:
    """Number and id of those that ended first."""
    statement = "purge.old" if claim else "purge.old" + UNCLAIMED
    found = [
        row
        for queue in queues
        for state in states
        for row in tx.all(statement, queue, state, before, limit)
    ]
    return [(seq, id) for _, seq, id in sorted(found)[:limit]]


def _tell(tx: Transaction, queue: str, event: str, *, wake: bool = False) -> None:
    ledger = Ledger(tx)
    ledger.add_events(ledger.numbers(), [""], queue, event)
    if wake:
        ledger.note_wake_up(queue)
    ledger.write()


def delete(tx: Transaction, seqs: list[int]) -> None:
    """Forget these tasks, with all that belongs to them."""
    if seqs:
        tx.run("purge.remember", tx.now, tx.array(seqs))
        tx.delete_tasks(seqs)
