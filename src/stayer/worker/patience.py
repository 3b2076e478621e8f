"""Patience with a store that does not answer: what needs it is tried again later, and later."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stayer.core.errors import StoreError
from stayer.heart import moment

logger = logging.getLogger("stayer.worker")

SHORTEST, LONGEST = 0.1, 10.0


class Patience:
    """How long to wait before the store is asked again."""

    def __init__(self) -> None:
        self._pause = SHORTEST
        self._not_before = 0.0

    def attempt(self, step: Callable[[], object]) -> bool:
        """Do what needs the store; False if it is not the time, or if it failed: leave it then."""
        if moment() < self._not_before:
            return False
        try:
            step()
        except StoreError as error:
            pause = self.next_pause()
            self.rest(pause)
            logger.warning("the store does not answer, again in %.1f s: %s", pause, error)
            return False
        self._pause = SHORTEST
        return True

    def rest(self, seconds: float = LONGEST) -> None:
        """Ask nothing of the store for so long."""
        self._not_before = moment() + seconds

    def left(self) -> float:
        """How long nothing may be asked."""
        return max(0.0, self._not_before - moment())

    def next_pause(self) -> float:
        """Longer each time."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST)
        return pause
