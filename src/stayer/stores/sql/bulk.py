"""What is done to many tasks at once: the plain way, which every database can go.

A database may know a faster one that leaves the same behind (`sqlite/fast.py`). The operations only
ask for `tx.bulk`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stayer.core.model import Change, Task
from stayer.core.worker_model import Handles
from stayer.stores.sql import history
from stayer.stores.sql.insert import Births
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import by_seq
from stayer.stores.sql.transaction import Cell, Transaction

_REMEMBERED = 10_000
"""Of how many queues at most it is known that they have no defaults."""


class Bulk:
    """One task after the other."""

    def births(self, tx: Transaction) -> Births:
        """Collects new tasks and enters them."""
        return Births(tx)

    def expect_no_defaults(self, tx: Transaction, queues: Sequence[str]) -> bool:
        """Whether none of these queues is known to have defaults; if one has, the transaction
        fails with IdTaken, sooner or later. False: somebody has to look.
        """
        return False

    def see_defaults(self, queues: Sequence[str], defaults: Mapping[str, str]) -> None:
        """Those of these queues have defaults, by a look."""

    def expect_lanes(self, tx: Transaction, queue: str, limit: int) -> None:
        """Somebody will ask for these lanes soon."""
        tx.prefetch("reserve.lanes", queue, limit)

    def expect_next(
        self, tx: Transaction, worker: str, queue: str, limit: int, handles: Handles
    ) -> None:
        """A worker will take from a queue, if it may: what that asks for can be sent already."""

    def lanes(self, tx: Transaction, queue: str, limit: int) -> list[str]:
        """The lanes of a queue that have something to take, up to so many."""
        return [lane for (lane,) in tx.all("reserve.lanes", queue, limit)]

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        """What a statement gives that answers with the numbers of tasks."""
        return [seq for (seq,) in tx.all(statement, *parameters)]

    def see(self, tx: Transaction, worker: str, node: str, queue: str, is_open: bool) -> None:
        """A worker, by this name on this node, is about to take from a queue; `is_open` if that has
        no limits, lines or rate.
        """

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


class BulkThatRemembers(Bulk):
    """Where each question takes a while: remembers which queues had no defaults, and lets the
    server check that, by the dialect's own statement `queue.expect_no_defaults`: if one of these
    queues has defaults, it fails, and the error has to become IdTaken.
    """

    def __init__(self) -> None:
        self._without_defaults: set[str] = set()

    def had_no_defaults(self, queues: Sequence[str]) -> bool:
        """Whether none of these had any when somebody last looked."""
        return self._without_defaults.issuperset(queues)

    def expect_no_defaults(self, tx: Transaction, queues: Sequence[str]) -> bool:
        if not self.had_no_defaults(queues):
            return False
        tx.send("queue.expect_no_defaults", [(tx.array(queues),)])
        return True

    def see_defaults(self, queues: Sequence[str], defaults: Mapping[str, str]) -> None:
        for queue in queues:
            if queue in defaults:
                self._without_defaults.discard(queue)
            elif len(self._without_defaults) < _REMEMBERED:
                self._without_defaults.add(queue)
