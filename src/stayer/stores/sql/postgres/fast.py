"""What makes PostgreSQL fast: many tasks in one statement, so one round trip serves them all. It
leaves the same behind as the plain way (`bulk.py`), which is the one to read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stayer.core.model import Change, NewTask, Task
from stayer.core.submit.fresh import fresh_task
from stayer.stores.sql import history
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.completions import groups, in_common
from stayer.stores.sql.insert import Births, checked_parameters, note_births
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.postgres.shortcuts import Shortcuts
from stayer.stores.sql.rows import (
    Born,
    born,
    cells,
    cells_in_common,
    likeness,
    task_from_row,
    value_cell,
)
from stayer.stores.sql.transaction import Cell, Transaction


class FastBulk(Bulk):
    """Many tasks in few statements."""

    def __init__(self) -> None:
        self._shortcuts = Shortcuts()

    def expect_lanes(self, tx: Transaction, queue: str, limit: int) -> None:
        if self._shortcuts.lanes(queue) is None:
            super().expect_lanes(tx, queue, limit)

    def lanes(self, tx: Transaction, queue: str, limit: int) -> list[str]:
        known = self._shortcuts.lanes(queue)
        if known is None:
            known = super().lanes(tx, queue, limit)
            self._shortcuts.see_lanes(queue, known)
        return known

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        if statement != "reserve.next":
            return super().seqs(tx, statement, *parameters)
        queue, lane, _, limit = parameters
        place = self._shortcuts.place(queue, lane)
        if place is not None:
            found = super().seqs(tx, "reserve.next_from", *parameters, *place)
            if len(found) == limit:
                self._begin_at(tx, queue, lane, found[0], anew=False)
                return found
        found = super().seqs(tx, statement, *parameters)
        if found and found[-1] < 0:
            found.pop()
            if found:
                self._begin_at(tx, queue, lane, found[0], anew=True)
        else:
            self._shortcuts.end(queue, lane)
        return found

    def _begin_at(self, tx: Transaction, queue: str, lane: str, seq: int, *, anew: bool) -> None:
        row = tx.one("reserve.place", seq)
        if row is not None:
            self._shortcuts.begin_at(queue, lane, (row[0], row[1], row[2]), anew=anew)

    def births(self, tx: Transaction) -> Births:
        return _BirthsInGroups(tx)

    def take(
        self, tx: Transaction, seqs: list[int], first: int, queue: str, worker: str, node: str
    ) -> list[Task]:
        before, behind = history.around_attempt(tx.now, worker, node)
        rows = tx.all("fast.take", tx.now, worker, node, first, before, behind, tx.array(seqs))
        tasks = {row[-1]: task_from_row(row) for row in rows}
        return [tasks[seq] for seq in seqs]

    def complete(
        self, tx: Transaction, changes: Sequence[Change], ledger: Ledger
    ) -> Iterator[tuple[Sequence[Change], frozenset[str]]]:
        for group in groups(changes):
            yield group, _completed(tx, group, ledger) if len(group) > 1 else frozenset()


class WaryBulk(FastBulk):
    """The same in a transaction that is not ours, where nothing may go wrong that can be known
    before.
    """

    def births(self, tx: Transaction) -> Births:
        return _WaryBirths(tx)


def _completed(tx: Transaction, group: Sequence[Change], ledger: Ledger) -> frozenset[str]:
    """The ids of those that were completed."""
    results = {
        change.id: value_cell(cells("result", change.result), as_text=True) for change in group
    }
    if len(results) < len(group):
        return frozenset()  # one of them twice
    state, worker, attempt, last_order, queue = in_common(group[0])
    effect = group[0].effect
    event, note, news = effect.event, effect.note, effect.attempt
    assert queue is not None
    assert event is not None
    assert news is not None
    line = history.after_number(tx.now, event, attempt, True, note, news.ending)
    first = ledger.numbers(len(group))
    rows = tx.all(
        "fast.complete", tx.now, worker, line, state, attempt, last_order, queue,
        tx.array(results), list(results.values()), first,
    )  # fmt: skip
    done = frozenset(id for (id,) in rows)
    ledger.moved(queue, state, effect.to, len(done))
    for number, id in enumerate(results, first):
        if id in done:
            ledger.told(number, [id], queue, event, attempt, worker, note)
    return done


class _Group:
    """Tasks that differ in nothing but id and parameters."""

    def __init__(self, new: NewTask, born: Born) -> None:
        self.new = new
        self.born = born
        self.ids: list[str] = []
        self.forms: list[Cell] = []


class _BirthsInGroups(Births):
    """Those that were asked for alike come into the table by one statement, which is sent with the
    rest: an id that is there already is heard of at the commit.
    """

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._groups: list[_Group] = []
        self._likeness: tuple[Any, ...] | None = None

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        form = value_cell(checked_parameters(new), as_text=True)
        mine = (waits, dependents, likeness(new))
        if mine != self._likeness:
            this = born(new, self._tx.now, waits=waits, dependents=dependents)
            self._groups.append(_Group(new, this))
            self._likeness = mine
        group = self._groups[-1]
        group.ids.append(new.id)
        group.forms.append(form)
        return fresh_task(new, *group.born)

    def write(self) -> bool:
        ledger = Ledger(self._tx)
        for group in self._groups:
            first = ledger.numbers(len(group.ids))
            common = cells_in_common(group.new, group.born)
            if not self._enter((self._tx.array(group.ids), group.forms, first, *common)):
                return False
            note_births(ledger, first, group.ids, group.new.queue, group.born)
        ledger.write()
        return True

    def _enter(self, parameters: Sequence[Cell]) -> bool:
        self._tx.send("fast.submit", [parameters])
        return True


class _WaryBirths(_BirthsInGroups):
    def _enter(self, parameters: Sequence[Cell]) -> bool:
        return self._tx.run("fast.submit_warily", *parameters) == len(parameters[0])
