"""What is done to many tasks at once, in few round trips. It leaves the same behind as the plain way (`../bulk.py`),
which is the one to read first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.locking import claimed
from stayer.stores.sql.transaction import UNCLAIMED, Cell, Transaction

_ALL_LANES = "reserve.next_of_all"


class FewTrips(Bulk):
    """As few questions as there can be."""

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        if not statement.startswith(_ALL_LANES):
            return super().seqs(tx, statement, *parameters)
        queue, lanes, now, limit = parameters
        claim = not statement.endswith(UNCLAIMED)
        return _best_of_lanes(tx, queue, lanes, now, limit, claim=claim)


def _best_of_lanes(
    tx: Transaction, queue: str, lanes: Sequence[str], now: float, limit: int, *, claim: bool
) -> list[int]:
    """The best of several lanes. One statement would have to sort them, and would lock all it has read: so they are
    looked at, then claimed. Where others claim at the same time, more are looked at.
    """
    looked_at = limit
    while True:
        heads = [tx.all("reserve.next_of_lane", queue, lane, now, looked_at) for lane in lanes]
        best = [row[2] for row in islice(heapq.merge(*heads), looked_at)]
        if not claim:
            return best
        found = claimed(tx, best)[:limit]
        if len(found) == limit or len(best) < looked_at:
            return found
        looked_at *= 4
