"""Slows down who tries tokens and codes one after another."""

from __future__ import annotations

import time
from collections import OrderedDict

from stayer.http.limits import client_of

FAILURES_PER_MINUTE = 20
"""How many failures of one address in a minute are answered as such."""
_MINUTE_S = 60.0
_MOST_ADDRESSES = 1000


class Failures:
    """Counts failures by address. Only failures: who has the right token is never kept waiting."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def count(self, address: str) -> int:
        """Count a failure; return how many seconds to wait, 0 while there are few."""
        now = time.monotonic()
        address = client_of(address)
        since, number = self._counts.pop(address, (now, 0))
        if now - since >= _MINUTE_S:
            since, number = now, 0
        self._counts[address] = (since, number + 1)
        while len(self._counts) > _MOST_ADDRESSES:
            self._counts.popitem(last=False)
        return max(1, round(since + _MINUTE_S - now)) if number >= FAILURES_PER_MINUTE else 0
