"""What makes PostgreSQL fast: many tasks in one statement, so one round trip serves them all. It
leaves the same behind as the plain way (`bulk.py`), which is the one to read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.json import decode

from stayer.core.model import Change, Task
from stayer.core.worker_model import Handles
from stayer.stores.sql import history
from stayer.stores.sql.bulk import BulkThatRemembers
from stayer.stores.sql.completions import end_of, groups, is_one_group
from stayer.stores.sql.insert import Births, BirthsInGroups
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.postgres.shortcuts import Shortcuts
from stayer.stores.sql.reserve import choose_handled
from stayer.stores.sql.rows import as_text, cells_in_common, changed_cell, task_from_row
from stayer.stores.sql.transaction import Cell, Numbers, Transaction

if TYPE_CHECKING:
    from stayer.stores.sql.postgres.transaction import PostgresTransaction

SUBMIT = "fast.submit_whole"
_OF_ALL = "reserve.next_of_all"
_NO_PLACE = (None, None, None)
_FIRST_STATES = ("waiting", "scheduled", "pending")


class FastBulk(BulkThatRemembers):
    """Many tasks in few statements."""

    def __init__(self) -> None:
        super().__init__()
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
        if statement not in {"reserve.next", _OF_ALL}:
            return super().seqs(tx, statement, *parameters)
        queue, of_lanes, _, limit = parameters
        lanes = of_lanes if statement == _OF_ALL else [of_lanes]
        return self._seqs(tx, statement, parameters, queue, lanes, limit)

    def _seqs(
        self,
        tx: Transaction,
        statement: str,
        parameters: Sequence[Cell],
        queue: str,
        lanes: Sequence[str],
        limit: int,
    ) -> list[int]:
        """Ask from the places that are remembered on; from the beginning if there are none, or
        less stands behind them than is wanted.
        """
        places = [self._shortcuts.place(queue, lane) for lane in lanes]
        if any(places):
            columns = zip(*(place or _NO_PLACE for place in places), strict=True)
            begin = [list(each) if statement == _OF_ALL else each[0] for each in columns]
            found, best = _split(super().seqs(tx, statement + "_from", *parameters, *begin))
            if len(found) == limit:
                self._begin_at(tx, queue, best or found)
                return found
        found, best = _split(super().seqs(tx, statement, *parameters))
        if best is None:
            self._shortcuts.end(queue)
        elif found:
            self._begin_at(tx, queue, best or found)
        return found

    def _begin_at(self, tx: Transaction, queue: str, seqs: list[int]) -> None:
        """Begin where the best of these tasks stand, each in its lane."""
        for lane, *place in tx.all("reserve.places", tx.array(seqs)):
            self._shortcuts.begin_at(queue, lane, tuple(place))

    def expect_no_defaults(self, tx: Transaction, queues: Sequence[str]) -> bool:
        if not self.had_no_defaults(queues):
            return False
        _mine(tx).without_defaults = queues
        return True

    def births(self, tx: Transaction) -> Births:
        return _SentBirths(tx)

    def take(
        self, tx: Transaction, seqs: list[int], first: int, queue: str, worker: str, node: str
    ) -> list[Task]:
        before, behind = history.around_attempt(tx.now, worker, node)
        rows = tx.all("fast.take", tx.now, worker, node, first, before, behind, tx.array(seqs))
        tasks = {row[-1]: task_from_row(row) for row in rows}
        return [tasks[seq] for seq in seqs]

    def see(self, tx: Transaction, worker: str, node: str, queue: str, is_open: bool) -> None:
        self._shortcuts.see(worker, node, queue, is_open)

    def is_usual(self, worker: str, queues: Sequence[str], changes: Sequence[Change]) -> bool:
        """Whether it is worth trying to do a turn in one round trip."""
        if len(queues) != 1 or self._shortcuts.usual(worker, queues[0]) is None:
            return False
        if not changes:
            return True
        first = changes[0]
        return first.queue == queues[0] and first.worker == worker and is_one_group(changes)

    def turn(
        self,
        tx: Transaction,
        worker: str,
        changes: Sequence[Change],
        queue: str,
        limit: int,
        handles: Handles,
    ) -> list[Task] | None:
        """Complete tasks, take others and commit, all in one round trip. None: nothing is done, for
        something is not as it was when the long way was last gone.
        """
        usual = self._shortcuts.usual(worker, queue)
        if usual is None:
            return None
        node, lanes = usual
        mine = choose_handled(lanes, handles, node)
        numbers = tx.numbers()
        before, behind = history.around_attempt(tx.now, worker, node)
        tx.commit_with_next()
        rows = tx.all(
            "turn.whole", tx.now, worker, node, queue, lanes, mine, limit,
            numbers.take(limit), before, behind, *_completion(changes, tx.now, numbers),
        )  # fmt: skip
        if rows and rows[0][-1] is None:
            self._shortcuts.forget(queue)
            return None
        if rows and rows[0][-1] < 0:
            self._shortcuts.see_lanes(queue, lanes)
            for lane, priority, created, seq in decode(rows.pop(0)[0] or "[]"):
                self._shortcuts.begin_at(queue, lane, (priority, float(created), seq))
        found = [(task_from_row(row), row[-1]) for row in rows]
        found.sort(key=lambda each: (-each[0].priority, each[0].created, each[1]))
        if changes:
            tx.notify([queue], ())
        return [task for task, _ in found]

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


def _split(seqs: list[int]) -> tuple[list[int], list[int] | None]:
    """Return what was chosen and, if the server had to pass by very much, the best of each lane."""
    if -1 not in seqs:
        return seqs, None
    mark = seqs.index(-1)
    return seqs[:mark], seqs[mark + 1 :]


def _completion(changes: Sequence[Change], now: float, numbers: Numbers) -> tuple[Cell, ...]:
    """What `stayer_turn` is told of a group of tasks that ran to their end."""
    if not changes:
        return ([], [], 0, "", "started", 0, 0, "", None)
    end = end_of(changes)
    return (
        [change.id for change in changes],
        [as_text(changed_cell("result", change.result)) for change in changes],
        numbers.take(len(changes)),
        end.line(now), end.state, end.attempt, end.last_order, end.event, end.note,
    )  # fmt: skip


def _completed(tx: Transaction, group: Sequence[Change], ledger: Ledger) -> frozenset[str]:
    """The ids of those that were completed."""
    results = {change.id: as_text(changed_cell("result", change.result)) for change in group}
    if len(results) < len(group):
        return frozenset()  # one of them twice
    end = end_of(group)
    first = ledger.numbers(len(group))
    rows = tx.all(
        "fast.complete", tx.now, end.worker, end.line(tx.now), end.state, end.attempt,
        end.last_order, end.queue, tx.array(results), list(results.values()), first,
    )  # fmt: skip
    done = frozenset(id for (id,) in rows)
    ledger.note_move(end.queue, end.state, end.to, len(done))
    for number, id in enumerate(results, first):
        if id in done:
            ledger.add_events(number, [id], *end.news)
    return done


def _mine(tx: Transaction) -> PostgresTransaction:
    """The transaction, which is one of this database."""
    return cast("PostgresTransaction", tx)


class _SentBirths(BirthsInGroups):
    """They are sent with the rest: an id that is there already is heard of at the commit."""

    def write(self) -> bool:
        """Tasks that are all alike come by one statement, with all that they leave behind."""
        tx, groups = _mine(self._tx), self._groups
        expected, tx.without_defaults = tx.without_defaults, ()
        if len(groups) != 1:
            if expected:
                tx.send("queue.expect_no_defaults", [(tx.array(expected),)])
            return super().write()
        [group] = groups
        first = tx.numbers().take(len(group.ids))
        queue, at, state = group.new.queue, group.beginning.at, group.beginning.state
        counts = [len(group.ids) * (state == each) for each in _FIRST_STATES]
        common = cells_in_common(group.new, group.beginning)
        more = (at, state, *counts, queue in expected)
        tx.send(SUBMIT, [(tx.array(group.ids), group.forms, first, *common, *more)])
        tx.notify([queue], ())
        return True

    def enter(
        self, ids: Sequence[str], forms: Sequence[Cell], first: int, common: Sequence[Cell]
    ) -> bool:
        self._tx.send("fast.submit", [(self._tx.array(ids), forms, first, *common)])
        return True


class _WaryBirths(BirthsInGroups):
    def enter(
        self, ids: Sequence[str], forms: Sequence[Cell], first: int, common: Sequence[Cell]
    ) -> bool:
        parameters = (self._tx.array(ids), forms, first, *common)
        return self._tx.run("fast.submit_warily", *parameters) == len(ids)
