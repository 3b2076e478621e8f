"""What is taken where tasks wait in lines: one for each key, so that those of a full key, however
many they are, keep nobody else waiting.

Most of the time the tasks that stand first can be taken, and looking at some of them is enough.
Only where these are of full keys, or where shares take turns, is every line looked at: its first
task.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from msgspec import Struct

from stayer.core.ordering.fair_share import Share, Turns
from stayer.stores.sql.locking import lock_queues
from stayer.stores.sql.transaction import Row, Transaction

_LOOKED_AT = 32
"""How many tasks are looked at, besides those wanted, before every line is."""


class KeyLimits(Struct, frozen=True):
    """How many tasks of a key may run at once."""

    general: int | None = None
    single: dict[str, int] = {}

    def of(self, key: str) -> int | None:
        """None: any number."""
        return self.single.get(key, self.general)


class _Places:
    """What is left of the limits of keys, while tasks are chosen."""

    def __init__(self, limits: KeyLimits, running: dict[str, int]) -> None:
        self._limits = limits
        self._running = running

    def has(self, key: str | None) -> bool:
        if key is None:
            return True
        limit = self._limits.of(key)
        return limit is None or self._running.get(key, 0) < limit

    def take(self, key: str | None) -> None:
        if key is not None:
            self._running[key] = self._running.get(key, 0) + 1


def best_in_lines(
    tx: Transaction, queue: str, lanes: Sequence[str], limit: int, limits: KeyLimits, fair: bool
) -> list[int]:
    """The next tasks of a queue whose keys have room, best first."""
    running: dict[str, int] = dict(tx.all("lines.running", queue))
    if not fair:
        found = _among_the_first(tx, queue, lanes, limit, _Places(limits, dict(running)))
        if found is not None:
            return found
    turns = _turns(tx, queue) if fair else None
    return _among_the_lines(tx, queue, lanes, limit, _Places(limits, running), turns)


def _among_the_first(
    tx: Transaction, queue: str, lanes: Sequence[str], limit: int, places: _Places
) -> list[int] | None:
    """None if it takes more than a look at those that stand first."""
    looked_at = limit + _LOOKED_AT
    heads = [tx.all("lines.first", queue, lane, tx.now, looked_at) for lane in lanes]
    # Past the last one seen of a lane that goes on, another lane's are not the next ones.
    ends = [rows[-1] for rows in heads if len(rows) == looked_at]
    horizon = min(ends, default=None)
    found: list[int] = []
    for row in heapq.merge(*heads, key=lambda row: row[:3]):
        _, _, seq, key = row
        if places.has(key):
            places.take(key)
            found.append(seq)
            if len(found) == limit:
                return found
        if row == horizon:
            return None
    return found


class _Line:
    """A line while tasks are taken from it."""

    def __init__(self, queue: str, lane: str, head: Row) -> None:
        *self._first, self.key, self.share, line = head
        self._place = (queue, lane, line)
        self._more: Iterator[Row] | None = None

    @property
    def seq(self) -> int:
        return int(self._first[2])

    def order(self, turns: Turns | None) -> Row:
        """Priority, then whose turn it is, then age."""
        priority, created, seq = self._first
        return priority, turns.usage_ms(self.share) if turns else 0, created, seq

    def advance(self, tx: Transaction, limit: int) -> bool:
        """To the next task; whether there is one."""
        if self._more is None:
            self._more = iter(tx.all("lines.next", *self._place, tx.now, limit + 1)[1:])
        self._first = list(next(self._more, ()))
        return bool(self._first)


def _among_the_lines(
    tx: Transaction,
    queue: str,
    lanes: Sequence[str],
    limit: int,
    places: _Places,
    turns: Turns | None,
) -> list[int]:
    heads = [
        _Line(queue, lane, row)
        for lane in lanes
        for row in tx.all("lines.heads", queue, lane, tx.now)
    ]
    waiting = [(line.order(turns), line) for line in heads if places.has(line.key)]
    heapq.heapify(waiting)
    found: list[int] = []
    while waiting and len(found) < limit:
        order, line = heapq.heappop(waiting)
        if not places.has(line.key):
            continue
        if (current := line.order(turns)) > order:  # others of its share went before
            heapq.heappush(waiting, (current, line))
            continue
        found.append(line.seq)
        places.take(line.key)
        if turns is not None:
            turns.take(line.share)
        if line.advance(tx, limit):
            heapq.heappush(waiting, (line.order(turns), line))
    return found


def _turns(tx: Transaction, queue: str) -> Turns:
    shares = {name: Share(*about) for name, *about in tx.all("shares", queue)}
    return Turns(shares, tx.all("shares.running", queue), tx.now)


def count_run(tx: Transaction, queue: str, share: str, ran: float) -> None:
    """A run of so many seconds has ended: if the queue is fair, it counts."""
    about = tx.one("shares.run", queue, share)
    if about is not None and lock_queues(tx, [queue]):  # others may have counted meanwhile
        about = tx.one("shares.run", queue, share)
    if about is not None:
        known = Share() if about[0] is None else Share(*about)
        after = known.after_run(ran, tx.now)
        tx.run("shares.put", queue, share, after.used, after.runs, after.at)
