"""The files that keepers go by: until when the lease is good, for each queue by itself where a part
of the store may be away.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stayer.store import PartedStore, Store
from stayer.worker.state import StateDirectory


class Leases:
    """Those of one identity after the other. Written by the thread of the heart, and read by it."""

    def __init__(self, store: Store, state: StateDirectory, length: float) -> None:
        self._state = state
        self._is_parted = isinstance(store, PartedStore)
        self.length = length
        self._until = 0.0
        self._until_in: dict[str, float] = {}

    def renew(self, until: float, proven: Iterable[str] | None, queues: Iterable[str]) -> None:
        """It is good in all queues, or in those that have answered; to be told to the keepers of
        tasks of these.
        """
        if proven is None:
            self._until, self._until_in = until, {}
        else:
            self._until_in = {**self._until_in, **dict.fromkeys(proven, until)}
        self._state.write_lease(until, self.length)
        self.tell(queues)

    def tell(self, queues: Iterable[str]) -> None:
        """What is known, to the keepers of tasks of these queues."""
        for queue in set(queues) if self._is_parted else ():
            self._state.write_lease(self.until(queue), self.length, queue)

    def until(self, queue: str) -> float:
        """How long it is good there."""
        return max(self._until, self._until_in.get(queue, 0.0))

    def path(self, queue: str) -> Path:
        """The file for a new task."""
        self.tell([queue])
        return self._state.lease_path_of(queue) if self._is_parted else self._state.lease_path

    def forget(self) -> None:
        """It was another identity's."""
        self._until, self._until_in = 0.0, {}
