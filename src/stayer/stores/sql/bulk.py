"""What is done to many tasks at once: the plain way, which every database can go.

A database may know a faster one that leaves the same behind (`sqlite/fast.py`). The operations only
ask for `tx.bulk`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stayer.core.model import Change, Task
from stayer.stores.sql import history
from stayer.stores.sql.insert import Births
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import by_seq
from stayer.stores.sql.transaction import Cell, Transaction


class Bulk:
    """One task after the other."""

    def births(self, tx: Transaction) -> Births:
        """Collects new tasks and enters them."""
        return Births(tx)

    def expect_lanes(self, tx: Transaction, queue: str, limit: int) -> None:
        """Somebody will ask for these lanes soon."""
        tx.prefetch("reserve.lanes", queue, limit)

    def lanes(self, tx: Transaction, queue: str, limit: int) -> list[str]:
        """The lanes of a queue that have something to take, up to so many."""
        return [lane for (lane,) in tx.all("reserve.lanes", queue, limit)]

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        """What a statement gives that answers with the numbers of tasks."""
        return [seq for (seq,) in tx.all(statement, *parameters)]

    def take(
        self, tx: Transaction, seqs: list[int], first: int, queue: str, worker: str, node: str
    ) -> list[Task]:
        """The tasks of a queue that were claimed, now held by the worker; the first of them under
        that number of an event.
        """
        attempts: dict[int, int] = dict(tx.all("reserve.attempts", tx.array(seqs)))
        about = (worker, None, None, None, node)
        rows = []
        for number, seq in enumerate(seqs, first):
            line = history.line(number, tx.now, "reserved", attempts[seq] + 1, *about)
            rows.append((tx.now, worker, node, line, seq))
        tx.many("reserve", rows)
        return by_seq(tx, seqs)

    def complete(
        self, tx: Transaction, changes: Sequence[Change], ledger: Ledger
    ) -> Iterator[tuple[Sequence[Change], frozenset[str]]]:
        """The changes in their order, in groups; and which of each are applied already: none."""
        yield changes, frozenset()
