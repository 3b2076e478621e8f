"""What makes SQLite fast where much is done at once. It leaves the same behind as the plain way
(`bulk.py`), which is the one to read first.

- Neighbours that were asked for alike come into the table by one statement.
- What stands one behind the other in the table is changed as a stretch, not row by row.
- Numbers and the usual columns are read as one JSON array: Python lets go of its lock at every row
  that it reads, and gets it back when others have had enough of it (`just_reserved.py`).
- Tasks that ran to their end are completed in groups (`bulk_complete.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stayer.core.model import Change, NewTask, Task
from stayer.core.submit.fresh import fresh_task
from stayer.stores.sql import history
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.completions import groups
from stayer.stores.sql.insert import Births, checked_parameters, note_births
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import (
    Born,
    born,
    cells_in_common,
    json_cell,
    likeness,
)
from stayer.stores.sql.sqlite.bulk_complete import complete
from stayer.stores.sql.sqlite.just_reserved import just_reserved, seqs_from_cell
from stayer.stores.sql.transaction import Cell, Transaction


class FastBulk(Bulk):
    """Many tasks in few statements."""

    def births(self, tx: Transaction) -> Births:
        return _BirthsInGroups(tx)

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        found = tx.one(statement.partition(" ")[0] + ".json", *parameters)
        return [] if found is None else seqs_from_cell(found[0])

    def take(
        self, tx: Transaction, seqs: list[int], first: int, queue: str, worker: str, node: str
    ) -> list[Task]:
        before, behind = history.around_attempt(tx.now, worker, node)
        attempt = tx.now, worker, node, first, before, behind
        if seqs == list(range(seqs[0], seqs[0] + len(seqs))):  # as those are that came together
            tx.run("fast.reserve_stretch", *attempt, seqs[0], seqs[-1])
        else:
            tx.run("fast.reserve", *attempt, tx.array(seqs))
        return just_reserved(tx, seqs, queue, worker, node)

    def complete(
        self, tx: Transaction, changes: Sequence[Change], ledger: Ledger
    ) -> Iterator[tuple[Sequence[Change], frozenset[str]]]:
        for group in groups(changes):
            yield group, complete(tx, group, ledger) if len(group) > 1 else frozenset()


class _Group:
    """Tasks that differ in nothing but id and parameters."""

    def __init__(self, new: NewTask, born: Born) -> None:
        self.new = new
        self.born = born
        self.ids: list[str] = []
        self.forms: list[str | None] = []
        self.bytes: bytes | None = None
        """Parameters that are no text: then there is but one task."""


class _BirthsInGroups(Births):
    """Those who submit many at once, or at the same time, mostly ask for the same with other
    parameters; so a crowd costs one statement, and what its rows have in common is worked out once.
    """

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._groups: list[_Group] = []
        self._likeness: tuple[Any, ...] | None = None

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        form = checked_parameters(new)
        mine = (waits, dependents, likeness(new))
        is_text = not isinstance(form, bytes)
        if not is_text or mine != self._likeness:
            this = born(new, self._tx.now, waits=waits, dependents=dependents)
            self._groups.append(_Group(new, this))
            self._likeness = mine if is_text else None
        group = self._groups[-1]
        group.ids.append(new.id)
        if isinstance(form, bytes):
            group.bytes, form = form, None
        group.forms.append(form)
        return fresh_task(new, *group.born)

    def write(self) -> bool:
        ledger = Ledger(self._tx)
        for group in self._groups:
            first = ledger.numbers(len(group.ids))
            entered = self._tx.run(
                "fast.submit",
                json_cell(list(zip(group.ids, group.forms, strict=True))),
                first,
                group.bytes,
                *cells_in_common(group.new, group.born),
            )
            if entered < len(group.ids):
                return False
            note_births(ledger, first, group.ids, group.new.queue, group.born)
        ledger.write()
        return True
