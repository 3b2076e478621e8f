"""Writing down what the queues did: workers and servers do it in passing, whoever comes first."""

from __future__ import annotations

import random
import time

from stayer.store import UpkeepStore

_SPREAD_S = 10.0
"""Within so many seconds after a minute somebody counts it; the others find it done."""


class Sampler:
    """Knows when there is something to count."""

    def __init__(self, store: UpkeepStore) -> None:
        self._store = store
        self._chance = random.Random()  # its own: that of the process may be somebody's seed
        self._next = time.monotonic() + self._chance.uniform(0.0, _SPREAD_S)

    @property
    def remaining_s(self) -> float:
        """Seconds until it is time."""
        return max(0.0, self._next - time.monotonic())

    def look(self) -> None:
        """Count, if it is time; a store that does not answer is asked again in a while."""
        if self.remaining_s > 0:
            return
        self._next = time.monotonic() + 60.0
        until_over = max(0.0, self._store.sample())
        self._next = time.monotonic() + until_over + self._chance.uniform(0.5, _SPREAD_S)
