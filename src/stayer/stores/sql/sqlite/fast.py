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

from stayer.core.model import Change, Task
from stayer.stores.sql import history
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.completions import groups
from stayer.stores.sql.insert import Births, BirthsInGroups
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import json_cell
from stayer.stores.sql.sqlite.bulk_complete import complete
from stayer.stores.sql.sqlite.just_reserved import just_reserved, seqs_from_cell
from stayer.stores.sql.transaction import Cell, Transaction


class FastBulk(Bulk):
    """Many tasks in few statements."""

    def births(self, tx: Transaction) -> Births:
        return _Births(tx)

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


class _Births(BirthsInGroups):
    """One statement, whose rows come as JSON."""

    takes_bytes = False

    def enter(
        self, ids: Sequence[str], forms: Sequence[Cell], first: int, common: Sequence[Cell]
    ) -> bool:
        alone = forms[0] if isinstance(forms[0], bytes) else None
        rows = [(ids[0], None)] if alone is not None else list(zip(ids, forms, strict=True))
        return self._tx.run("fast.submit", json_cell(rows), first, alone, *common) == len(ids)
