"""What is put in order behind those who write, by whoever comes by: each in a small transaction of
its own, for which nobody waits.

- Rows of differences (`stayer_counts`) become one for each queue, so that adding them up stays
  quick.
- Events that are committed get their numbers for those who watch.
- A queue whose first tasks have come gets its row. It can't get it together with them: a second one
  who brings it would have to wait for the first one's commit, which may be the caller's and an hour
  away.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from stayer.core.errors import StoreError
from stayer.core.model import STATES
from stayer.stores.sql.mysql.transaction import MySqlTransaction

if TYPE_CHECKING:
    from stayer.stores.sql.mysql.database import Database

_DIFFERENCES = 64
"""So many rows of differences this process writes before it adds some up."""
_ADDED_UP = 1000
"""How many are added up at a time."""
_NUMBERED = 1000
"""How many rows of events get their numbers at a time."""
_TRANSACTIONS = 512
"""So many transactions of this process there are before it numbers events, if nobody watches who
would."""
_KEPT, _ONCE_IN = 1_000_000, 10_000
"""How many events are kept for those who watch, and how many come between two looks for old ones.
"""
_MARKS_KEPT_S = 60.0
"""How long marks for workers are kept, in seconds: those who wait look more often."""
_QUEUES = 10_000
"""How many queues are remembered as having a row."""


class Pace:
    """When this process does what."""

    def __init__(self) -> None:
        self._differences = self._transactions = 0
        self._added_up_to = 0
        self._known: set[str] = set()
        self._busy = threading.Lock()

    def written(self, database: Database, tx: MySqlTransaction) -> None:
        """A transaction has been committed. What goes wrong here is done by the next one."""
        if not tx.counted:
            return
        self._differences += tx.counted
        self._transactions += 1
        fresh = tx.queues - self._known
        is_much = self._differences >= _DIFFERENCES
        are_many = self._transactions >= _TRANSACTIONS
        if not (fresh or is_much or are_many) or not self._busy.acquire(blocking=False):
            return
        try:
            with suppress(StoreError):
                if fresh:
                    self._enter(database, fresh)
                if is_much:
                    self._differences = 0
                    self._added_up_to = add_up(database, self._added_up_to)
                if are_many:
                    self._transactions = 0
                    number_events(database)
        finally:
            self._busy.release()

    def _enter(self, database: Database, queues: set[str]) -> None:
        if len(self._known) > _QUEUES:
            self._known.clear()
        self._known |= {queue for queue in sorted(queues) if database.make_queue(queue)}


def add_up(database: Database, after: int = 0) -> int:
    """Let one row of differences for each queue stand for many, from that number on; the one to
    begin with next time: where there are very many queues, those that come first may have nothing
    to add up.
    """
    with database.write() as tx:
        rows = tx.all("counts", after, _ADDED_UP)
        sums: dict[str, list[int]] = {}
        for _, queue, *numbers in rows:
            known = sums.setdefault(queue, [0] * len(numbers))
            for place, number in enumerate(numbers):
                known[place] += number
        if len(sums) < len(rows):
            kept = [(*sums[queue], queue) for queue in sorted(sums) if any(sums[queue])]
            tx.many("count", kept)
            tx.run("counts.added", tx.array(number for number, *_ in rows))
        tx.run("marks.forget", tx.now - _MARKS_KEPT_S)
    for queue, numbers in sums.items():
        if any(numbers[: len(STATES)]):
            database.make_queue(queue)
    return int(rows[-1][0]) if len(rows) == _ADDED_UP and len(sums) > _ADDED_UP // 2 else 0


def number_events(database: Database) -> None:
    """Number all that is committed, unless somebody else is at it."""
    with database.looking() as tx:
        mark = tx.one("events.mark")
    if mark is None or not mark[1]:
        return
    while _number_some(database) == _NUMBERED:
        pass


def _number_some(database: Database) -> int:
    with database.write() as tx:
        locked = tx.one("events.lock")
        if locked is None:
            return 0
        last = before = int(locked[0])
        numbered = []
        rows = tx.all("events.fresh", _NUMBERED)
        for seq, count in rows:
            last += count
            numbered.append((last, seq))
        tx.many("events.number", numbered)
        tx.run("events.numbered", str(last))
        if before // _ONCE_IN != last // _ONCE_IN and last > _KEPT:
            tx.run("events.too_many", last - _KEPT)
        return len(rows)


def mend_lines(tx: MySqlTransaction, queue: str) -> None:
    """Let all tasks of a queue stand in the lines that its settings ask for. Those that are not
    committed yet are passed by, for that may be an hour away: whoever tidies up later sees to them.
    """
    rows = tx.all("lines.wrong", queue)
    if not rows:
        return
    free = {seq for (seq,) in tx.all("lines.claim", tx.array(seq for seq, *_ in rows))}
    wanted: dict[str | None, list[int]] = {}
    for seq, share, _ in rows:
        if seq in free:
            wanted.setdefault(share, []).append(seq)
    for share, seqs in wanted.items():
        tx.run("lines.right", share, tx.array(seqs))
