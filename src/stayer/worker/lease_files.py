"""The files that keepers go by: until when the lease is good, for each queue by itself where a part
of the store may be away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from stayer.service.lease.heartbeat import moment
from stayer.store import StoreBase
from stayer.worker.state_directory import StateDirectory

_KEEPER_POLL_S = 1.0
"""How often keepers look at the lease."""


class Leases:
    """Those of one identity after the other. Written by the thread of the heartbeat, and read by
    it.
    """

    def __init__(self, store: StoreBase, state: StateDirectory, length: float) -> None:
        self._state = state
        self._is_parted = store.in_parts
        self.length = length
        self.frozen_until = 0.0
        """Until then keepers may still freeze something that they were not told of in time."""
        self._last = self._until = 0.0
        self._until_in: dict[str, float] = {}

    def renew(self, until: float, proven: Iterable[str] | None, queues: Collection[str]) -> None:
        """Note that it is good in all queues, or in those that have answered, and write it for the
        keepers of tasks of these.
        """
        now, margin = moment(), min(10.0, self.length / 6)
        ended = min(map(self.until, queues), default=self._last)
        if now > ended - 2 * margin:
            # Keepers may have frozen their tasks by now, or are about to: they go by what they have
            # read, and a full disk keeps them from saying so.
            self.frozen_until = max(now, ended, now + margin) + _KEEPER_POLL_S
        self._last = until
        if proven is None:
            self._until, self._until_in = until, {}
        else:
            self._until_in = {**self._until_in, **dict.fromkeys(proven, until)}
        self._state.write_lease(until, self.length)
        self.write(queues)

    def write(self, queues: Iterable[str]) -> None:
        """Write what is known for the keepers of tasks of these queues."""
        for queue in set(queues) if self._is_parted else ():
            self._state.write_lease(self.until(queue), self.length, queue)

    def until(self, queue: str) -> float:
        """Return how long it is good there."""
        return max(self._until, self._until_in.get(queue, 0.0))

    def path(self, queue: str) -> Path:
        """Return the file for a new task."""
        self.write([queue])
        return self._state.lease_path_of(queue) if self._is_parted else self._state.lease_path

    def forget(self) -> None:
        """Forget it: it was another identity's."""
        self._last, self._until, self._until_in = 0.0, 0.0, {}
