"""Telling of tasks that stand still for want of a lease, when that happens.

By a thread of its own: while the store is away, the loop and the heartbeat wait for its answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Container

from stayer.core.units import format_duration
from stayer.worker.attempt import HeldAttempt
from stayer.worker.attempts import HeldAttempts
from stayer.worker.lease_files import Leases

logger = logging.getLogger("stayer.worker")

_POLL_S = 1.0


class FreezeLogger:
    """Looks at what the keepers say of what they keep, and tells of each freeze once."""

    def __init__(
        self, holdings: HeldAttempts, leases: Leases, frozen_for_sleep: Container[tuple[str, int]]
    ) -> None:
        """What is `frozen_for_sleep` does not stand still for want of a lease."""
        self._holdings = holdings
        self._leases = leases
        self._frozen_for_sleep = frozen_for_sleep
        self._logged: dict[tuple[str, int], float] = {}
        """When the freeze began that was told of last."""
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._watch, name="standstill", daemon=True).start()

    def stop(self) -> None:
        """Tell no more."""
        self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(_POLL_S):
            try:
                self.look()
            except Exception:  # whatever it is, the next freeze is to be told of
                logger.exception("what stands still can't be told")

    def look(self) -> None:
        """Tell of what has come to stand still since the last look."""
        fenced = self._holdings.list_fenced()
        for held in fenced:
            since = held.fenced_since
            if self._logged.get(held.key) != since:
                self._logged[held.key] = since
                if held.key in self._frozen_for_sleep:
                    continue
                logger.warning("task %s stands still: %s", held.task.id, self._why(held, since))
        for key in [each for each in self._logged if each not in self._holdings]:
            del self._logged[key]

    def _why(self, held: HeldAttempt, since: float) -> str:
        renewed = self._leases.until(held.task.queue) - self._leases.length
        if 0.0 < renewed < since:
            return f"the lease could not be renewed for {format_duration(since - renewed)}"
        return "the lease was not renewed in time"
