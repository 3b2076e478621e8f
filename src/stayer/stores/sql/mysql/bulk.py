"""What is done to many tasks at once, in few round trips. It leaves the same behind as the plain
way (`../bulk.py`), which is the one to read first.

- Tasks that were asked for alike come by one INSERT; what they have in common is written out once.
- What is claimed comes with all its columns, so it need not be read again when it was taken.
- Tasks that ran to their end are locked by one statement, and changed by one more.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

from stayer.core.model import Change, Task
from stayer.core.worker_model import Handles
from stayer.stores.sql import history
from stayer.stores.sql.bulk import BulkThatRemembers
from stayer.stores.sql.completions import end_of, groups
from stayer.stores.sql.insert import Births, BirthsInGroups
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.mysql.dialect import NUMBERS
from stayer.stores.sql.reserve import choose_handled
from stayer.stores.sql.rows import TASK_COLUMNS, changed_cell, task_from_row
from stayer.stores.sql.transaction import UNCLAIMED, Cell, Row, Transaction

if TYPE_CHECKING:
    from stayer.stores.sql.mysql.transaction import MySqlTransaction

_ONE_LANE, _ALL_LANES = "reserve.next", "reserve.next_of_all"
_REMEMBERED = 16
"""How many lanes of a queue at most."""
_PLACE = {name.strip('"'): place for place, name in enumerate(TASK_COLUMNS.split(", "))}


class FewTrips(BulkThatRemembers):
    """Ask as few questions as possible. What a worker will take is asked for with the first of
    them, by the lanes that there were the last time: if there are others now, it is asked for
    again, and what was claimed is free at the end of the transaction.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lanes: dict[str, list[str]] = {}
        self._nodes: dict[str, str] = {}

    def see(self, tx: Transaction, worker: str, node: str, queue: str, is_open: bool) -> None:
        self._nodes[worker] = node
        if not is_open:  # then less may be taken than is asked for
            self._lanes.pop(queue, None)

    def lanes(self, tx: Transaction, queue: str, limit: int) -> list[str]:
        found = super().lanes(tx, queue, limit)
        self._lanes[queue] = found if len(found) <= _REMEMBERED else []
        return found

    def expect_next(
        self, tx: Transaction, worker: str, queue: str, limit: int, handles: Handles
    ) -> None:
        lanes = choose_handled(self._lanes.get(queue, ()), handles, self._nodes.get(worker))
        if len(lanes) == 1 and limit > 0:
            tx.prefetch("reserve.next_rows", queue, lanes[0], tx.now, limit)

    def births(self, tx: Transaction) -> Births:
        return _Births(tx)

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        if statement.endswith(UNCLAIMED):
            if not statement.startswith(_ALL_LANES):
                return super().seqs(tx, statement, *parameters)
            queue, lanes, now, limit = parameters
            return _best_of_lanes(tx, queue, lanes, now, limit)
        if statement == _ONE_LANE:
            return _mine(tx).claimed.put(tx.all("reserve.next_rows", *parameters))
        assert statement == _ALL_LANES
        return _claimed_in_lanes(tx, *parameters)

    def take(
        self, tx: Transaction, seqs: list[int], first: int, queue: str, worker: str, node: str
    ) -> list[Task]:
        rows: dict[int, Row] = _mine(tx).claimed.take(seqs)
        before, behind = history.around_attempt(tx.now, worker, node)
        common = (tx.now, worker, node, first, before, behind)
        if seqs == list(range(seqs[0], seqs[0] + len(seqs))):  # as those are that came together
            tx.send("fast.reserve_stretch", [(*common, seqs[0], seqs[-1])])
        else:
            tx.send("fast.reserve", [(*common, tx.array(seqs))])
        return [_reserved(rows[seq], tx.now, worker, node) for seq in seqs]

    def complete(
        self, tx: Transaction, changes: Sequence[Change], ledger: Ledger
    ) -> Iterator[tuple[Sequence[Change], frozenset[str]]]:
        for group in groups(changes):
            yield group, _completed(tx, group, ledger) if len(group) > 1 else frozenset()


class Claimed:
    """Rows that a transaction has claimed, until they are taken."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._rows: dict[int, Row] = {}

    def put(self, rows: Sequence[Row]) -> list[int]:
        """Keep rows of TASK_COLUMNS; their numbers."""
        self._rows |= {row[-1]: row for row in rows}
        return [row[-1] for row in rows]

    def take(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Rows by their numbers; those that were claimed in another way are read."""
        unread = [seq for seq in seqs if seq not in self._rows]
        if unread:
            self.put(self._tx.all("get.seqs", self._tx.array(unread)))
        return {seq: self._rows.pop(seq) for seq in seqs}


def _mine(tx: Transaction) -> MySqlTransaction:
    """The transaction, which is one of this database."""
    return cast("MySqlTransaction", tx)


def _reserved(row: Row, now: float, worker: str, node: str) -> Task:
    """What has become of a task, as the statements `fast.reserve…` have it."""
    cells = list(row)
    becomes = {
        "state": "reserved", "attempt": row[_PLACE["attempt"]] + 1, "updated": now,
        "worker": worker, "node": node, "pid": None, "ending": None, "started_at": None,
        "returned_from": None, "paused": 0, "usage": None, "reserved_at": now,
    }  # fmt: skip
    for name, value in becomes.items():
        if name in _PLACE:
            cells[_PLACE[name]] = value
    return task_from_row(tuple(cells))


def _best_of_lanes(
    tx: Transaction, queue: str, lanes: Sequence[str], now: float, limit: int
) -> list[int]:
    for lane in lanes:
        tx.prefetch("reserve.next_of_lane", queue, lane, now, limit)
    heads = [tx.all("reserve.next_of_lane", queue, lane, now, limit) for lane in lanes]
    return [row[2] for row in islice(heapq.merge(*heads), limit)]


def _claimed_in_lanes(
    tx: Transaction, queue: str, lanes: Sequence[str], now: float, limit: int
) -> list[int]:
    """The best of several lanes. One statement would have to sort them, and would lock all it has
    read: so they are looked at, then claimed. Where others claim at the same time, more are looked
    at.
    """
    looked_at = limit
    while True:
        best = _best_of_lanes(tx, queue, lanes, now, looked_at)
        claimed = (
            set(_mine(tx).claimed.put(tx.all("reserve.claim_rows", tx.array(best)))) if best else ()
        )
        found = [seq for seq in best if seq in claimed][:limit]
        if len(found) == limit or len(best) < looked_at:
            return found
        looked_at *= 4


def _completed(tx: Transaction, group: Sequence[Change], ledger: Ledger) -> frozenset[str]:
    """The ids of those that were completed."""
    cell = tx.dialect.value_cell
    results = {change.id: cell(changed_cell("result", change.result)) for change in group}
    if len(results) < len(group):
        return frozenset()  # one of them twice
    end = end_of(group)
    rows = tx.all(
        "fast.completable", end.worker, end.state, end.attempt, end.last_order, end.queue,
        tx.array(results),
    )  # fmt: skip
    seqs = {id: seq for id, seq in rows if id in results}
    if not seqs:
        return frozenset()
    line = end.line(tx.now)
    number = first = ledger.numbers(len(seqs))
    if len(set(results.values())) == 1:
        done = [id for id in results if id in seqs]
        tx.send(
            "fast.complete_alike",
            [(tx.now, line, first, results[done[0]], tx.array(seqs[id] for id in done))],
        )
        ledger.add_events(first, done, *end.news)
    else:
        for id, result in results.items():
            if id in seqs:
                tx.send("fast.complete", [(tx.now, line, number, result, seqs[id])])
                ledger.add_events(number, [id], *end.news)
                number += 1
    ledger.note_move(end.queue, end.state, end.to, len(seqs))
    return frozenset(seqs)


class _Births(BirthsInGroups):
    """An id that is there already is heard of when the packet is sent."""

    largest = NUMBERS

    def enter(
        self, ids: Sequence[str], forms: Sequence[Cell], first: int, common: Sequence[Cell]
    ) -> bool:
        numbers = range(first, first + len(ids))
        return _mine(self._tx).enter(list(zip(ids, forms, numbers, strict=True)), common)
