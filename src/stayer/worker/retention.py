"""Forgetting what has been kept for long enough, in a worker's idle moments."""

from __future__ import annotations

import random
from collections.abc import Mapping

from stayer.core.queue_model import Kept
from stayer.service.lease.heartbeat import moment
from stayer.service.upkeep.due_work import Forgetting
from stayer.store import Store

_PURGE_INTERVAL_S = 600.0
"""How often one worker purges; all of them together purge more often."""
_FIRST_PURGE_S = 5.0


class Purger:
    """A little at a time, then a long pause; no two workers in step."""

    def __init__(self, store: Store, retention: Mapping[Kept, float]) -> None:
        self._store = store
        self._forgetting = Forgetting(retention)
        self._next = moment() + random.uniform(0, _FIRST_PURGE_S)
        self.has_more = False

    def is_due(self) -> bool:
        """Return whether it is time for a step."""
        return self.has_more or moment() >= self._next

    def step(self) -> None:
        """Forget some."""
        self.has_more = False  # should it fail, the next look is later
        self._next = moment() + _PURGE_INTERVAL_S * random.uniform(0.5, 1.5)
        self.has_more = self._forgetting.step(self._store)
