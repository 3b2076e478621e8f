"""The hot half of `Store.turn`: many tasks that ran to their end, in one statement.

A change is plain if it is what `lifecycle.decide` makes of `Done`, and its result is text.
Neighbours that differ in nothing but id and result make a group. What the statement leaves alone,
for whatever reason, goes the way of all changes (`commit.py`), which says whether it may be done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from stayer.core.lifecycle import Done, decide
from stayer.core.model import Change, Task
from stayer.stores.sql import history
from stayer.stores.sql.ledger import Ledger
from stayer.stores.sql.rows import cells, json_cell
from stayer.stores.sql.transaction import Transaction

_COMMON = ("state", "worker", "attempt", "last_order", "queue")
_common = attrgetter(*_COMMON)
_rest = attrgetter(*(set(Change.__struct_fields__) - {"id", "result", *_COMMON}))
_PLAIN = _rest(decide(Task("", "", state="reserved", worker=""), Done()))


def groups(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """The changes in their order, plain ones that belong together as one group."""
    group: list[Change] = []
    common: object = None
    for change in changes:
        plain = _common(change) if change.queue is not None and _rest(change) == _PLAIN else None
        if group and (plain is None or plain != common):
            yield group
            group = []
        common = plain
        group.append(change)
    if group:
        yield group


def complete(tx: Transaction, group: Sequence[Change], ledger: Ledger) -> frozenset[str]:
    """The ids of those that were completed."""
    first = ledger.numbers(len(group))
    results: dict[str, str] = {}
    for number, change in enumerate(group, first):
        result = cells("result", change.result)
        if change.id in results or isinstance(result, bytes) or "\0" in (result or ""):
            return frozenset()
        results[change.id] = f"{number:016d}{result or ''}"
    state, worker, attempt, last_order, queue = _common(group[0])
    line = history.after_number(tx.now, "complete", attempt, True, "done", "done")
    cell = json_cell(results)
    done = tx.run("commit.done", tx.now, worker, line, cell, state, attempt, last_order, queue)
    if not done:
        return frozenset()
    ids = list(results)
    if done == len(group):
        ledger.told(first, ids, queue, "complete", attempt, worker, "done")
    else:
        ids = [id for (id,) in tx.all("commit.done_which", cell)]
        for id in ids:
            ledger.told(int(results[id][:16]), [id], queue, "complete", attempt, worker, "done")
    ledger.moved(queue, state, "complete", done)
    return frozenset(ids)
