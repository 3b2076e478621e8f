"""What every change of state leaves behind: events, attempts, counters, wake-ups.

Collected while an operation works, written once at its end, so that fifty changes cost three
statements and not a hundred and fifty.
"""

from __future__ import annotations

from stayer.core.model import RUNNING, STATES, State
from stayer.stores.sql.transaction import Row, Transaction

_POSITION = {state: index for index, state in enumerate(STATES)}
_WAKES = len(STATES)


class Ledger:
    """The entries of one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._events: list[Row] = []
        self._counts: dict[str, list[int]] = {}
        self._starts: list[Row] = []
        self._ends: list[Row] = []
        self._workers: set[str] = set()
        self._outbox: list[Row] = []

    def moved(self, queue: str, before: State | None, after: State, number: int = 1) -> None:
        """So many tasks of the queue came from one state (None: from nowhere) into another."""
        counts = self._of(queue)
        if before is not None:
            counts[_POSITION[before]] -= number
        counts[_POSITION[after]] += number
        # A task came, or a place under the queue's limit became free.
        if after == "pending" or (before in RUNNING and after not in RUNNING):
            counts[_WAKES] = 1

    def woken(self, queue: str) -> None:
        """There may be something new to take."""
        self._of(queue)[_WAKES] = 1

    def ordered(self, worker: str | None) -> None:
        """There is something new for this worker."""
        if worker is not None:
            self._workers.add(worker)

    def event(
        self, seq: int, id: str, queue: str, event: str, attempt: int, worker: str | None,
        note: str | None = None,
    ) -> None:  # fmt: skip
        """Something happened to a task."""
        self._events.append((self._tx.now, seq, id, queue, event, attempt, worker, note))

    def started(self, seq: int, attempt: int, pid: int | None) -> None:
        """An attempt has a process."""
        self._starts.append((self._tx.now, pid, seq, attempt))

    def ended(self, seq: int, attempt: int, ending: str, error: str | None) -> None:
        """An attempt is over."""
        self._ends.append((self._tx.now, ending, error, seq, attempt))

    def ended_for_others(self, id: str, state: State) -> None:
        """A task has ended that others wait for."""
        self._outbox.append((id, state, self._tx.now))

    def write(self) -> bool:
        """Enter it all; whether something came into the outbox."""
        tx = self._tx
        if self._events:
            tx.many("event", self._events)
        if self._starts:
            tx.many("attempt.start", self._starts)
        if self._ends:
            tx.many("attempt.end", self._ends)
        for queue, counts in self._counts.items():
            tx.run("count", *counts, queue)
        for worker in self._workers:
            tx.run("wake.worker", worker)
        if self._outbox:
            tx.many("outbox.add", self._outbox)
        return bool(self._outbox)

    def _of(self, queue: str) -> list[int]:
        counts = self._counts.get(queue)
        if counts is None:
            counts = self._counts[queue] = [0] * (len(STATES) + 1)
        return counts
