"""What every change of state leaves behind: events, histories, counters, wake-ups.

Collected while an operation works, written once at its end, so that fifty changes cost three
statements and not a hundred and fifty.
"""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.insight.totals import WORKER_LOST
from stayer.core.model import RUNNING, STATES, State
from stayer.stores.sql import history
from stayer.stores.sql.history_overflow import shorten
from stayer.stores.sql.notices import rows_of
from stayer.stores.sql.rows import by_seq, json_cell
from stayer.stores.sql.transaction import Numbers, Row, Transaction

_POSITION = {state: index for index, state in enumerate(STATES)}
_WAKES = len(STATES)
EVENTS_KEPT = 1_000_000
"""How many events are kept for those who watch; they know more of a task from its history."""
TRIMMED_EVERY = 10_000
"""How many events there are between two looks for old ones."""


def differences(before: State | None, after: State) -> list[int]:
    """How many more tasks are in each state if one comes from one into another."""
    counts = [0] * len(STATES)
    if before is not None:
        counts[_POSITION[before]] -= 1
    counts[_POSITION[after]] += 1
    return counts


def wakes(before: State | None, after: State) -> bool:
    """Whether a task came, or a place under the queue's limit became free."""
    return after == "pending" or (before in RUNNING and after not in RUNNING)


class _Batch:
    """Events that differ only in task and number: a row."""

    def __init__(self, first: int, ids: Sequence[str], what: Row) -> None:
        self.first = first
        self.ids = list(ids)
        self.what = what

    @property
    def last(self) -> int:
        return self.first + len(self.ids) - 1


class Ledger:
    """The entries of one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._numbers: Numbers | None = None
        self._events: list[_Batch] = []
        self._lines: list[Row] = []
        self._grown: list[int] = []
        self._counts: dict[str, list[int]] = {}
        self._workers: set[str] = set()
        self._outbox: list[Row] = []
        self._heard_of: list[tuple[int, int, Sequence[str], Sequence[str]]] = []

    def note_move(self, queue: str, before: State | None, after: State, number: int = 1) -> None:
        """So many tasks of the queue came from one state (None: from nowhere) into another."""
        counts = self._of(queue)
        if before is not None:
            counts[_POSITION[before]] -= number
        counts[_POSITION[after]] += number
        if wakes(before, after):
            counts[_WAKES] = 1

    def more_running(self, queue: str) -> int:
        """How many more tasks of the queue run than the counters that are written say."""
        counts = self._counts.get(queue)
        return 0 if counts is None else sum(counts[_POSITION[state]] for state in RUNNING)

    def note_wake_up(self, queue: str) -> None:
        """There may be something new to take."""
        self._of(queue)[_WAKES] = 1

    def note_order(self, worker: str | None) -> None:
        """There is something new for this worker."""
        if worker is not None:
            self._workers.add(worker)

    def numbers(self, count: int = 1) -> int:
        """The first of so many numbers for events. Those that find no use are left out."""
        if self._numbers is None:
            self._numbers = self._tx.numbers()
        return self._numbers.take(count)

    def event(
        self, seq: int, id: str, queue: str, event: str, attempt: int, worker: str | None,
        note: str | None = None,
    ) -> None:  # fmt: skip
        """Something happened to a task; for those who do not write its history themselves."""
        number = self.numbers()
        self.add_events(number, [id], queue, event, attempt, worker, note)
        holder = None if worker is None else True
        line = history.line(number, self._tx.now, event, attempt, holder, note)
        self._lines.append((line, seq))
        self.grown(seq)

    def add_events(
        self, first: int, ids: Sequence[str], queue: str, event: str, attempt: int = 0,
        worker: str | None = None, note: str | None = None,
    ) -> None:  # fmt: skip
        """Note that the same happened to these tasks, under this number and those that follow it;
        their histories have it already."""
        what = (queue, event, attempt, worker, note)
        newest = self._events[-1] if self._events else None
        if newest is not None and newest.what == what and newest.last == first - 1:
            newest.ids.extend(ids)
        else:
            self._events.append(_Batch(first, ids, what))

    def note_lost_worker(self, worker: str) -> None:
        """A worker was declared lost."""
        self.add_events(self.numbers(), [""], "", WORKER_LOST, worker=worker)

    def grown(self, seq: int) -> None:
        """The task's history may have become too long for its row."""
        self._grown.append(seq)

    def ended_for_others(self, id: str, state: State) -> None:
        """A task has ended that others wait for."""
        self._outbox.append((id, state, self._tx.now))

    @property
    def has_news_for_others(self) -> bool:
        """There is something for the outbox, or a notice of a task as it is by now."""
        return bool(self._outbox or self._heard_of)

    def heard_of(
        self, seq: int, number: int, happened: Sequence[str], targets: Sequence[str]
    ) -> None:
        """These outside are to hear what happened to a task, in the event of that number."""
        if targets:
            self._heard_of.append((seq, number, happened, targets))

    def write(self) -> bool:
        """Enter it all; whether something came into the outbox."""
        tx = self._tx
        if self._lines:
            tx.send("history.add", self._lines)
        if self._events:
            self._write_events(tx)
        if self._grown:
            shorten(tx, self._grown)
        if self._outbox:
            tx.send("outbox.add", self._outbox)
        if self._heard_of:
            self._write_notices(tx)
        self._write_counts(tx)
        return bool(self._outbox)

    def _write_counts(self, tx: Transaction) -> None:
        """Last of all and in the order of the names: if they are kept in rows that others change
        too, nobody waits for them for long, nor in a circle.
        """
        tx.send("count", [(*self._counts[queue], queue) for queue in sorted(self._counts)])
        woken = [queue for queue, counts in self._counts.items() if counts[_WAKES]]
        if woken or self._workers:
            tx.notify(woken, self._workers)

    def _write_notices(self, tx: Transaction) -> None:
        tasks = by_seq(tx, [seq for seq, *_ in self._heard_of])
        for task, (_, number, happened, targets) in zip(tasks, self._heard_of, strict=True):
            tx.send("notice.add", rows_of(task, tx.now, number, happened, targets))

    def _write_events(self, tx: Transaction) -> None:
        rows = [(batch.last, tx.now, json_cell(batch.ids), *batch.what) for batch in self._events]
        tx.send("event", rows)
        last = self._events[-1].last
        if self._events[0].first // TRIMMED_EVERY != last // TRIMMED_EVERY:
            tx.send("event.old", [(last - EVENTS_KEPT,)])

    def _of(self, queue: str) -> list[int]:
        counts = self._counts.get(queue)
        if counts is None:
            counts = self._counts[queue] = [0] * (len(STATES) + 1)
        return counts
