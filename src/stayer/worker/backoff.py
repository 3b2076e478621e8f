"""Backoff from a store that does not answer: what needs it is tried again later, and later."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

from stayer.core.errors import StoreError
from stayer.service.degraded import log_once
from stayer.service.lease.heartbeat import moment
from stayer.worker.signals import Hurry

logger = logging.getLogger("stayer.worker")

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
_HURRY_TIMEOUT_S = 3.0
_BRIEF_TIMEOUT_S, _BRIEF_PAUSE_S = 6.0, 1.0
"""How long a worker that is to go soon waits for an answer, and after an error. The first is a
little more than replicas usually take to confirm."""


class Backoff:
    """How long to wait before the store is asked again."""

    def __init__(self, longest: float = LONGEST_PAUSE_S) -> None:
        self._longest = longest
        self._pause = SHORTEST_PAUSE_S
        self._not_before = 0.0
        self._asks = False
        self._is_brief = False
        self.hurries = False
        """It has a few seconds to answer, not more, and is asked without a pause."""
        self._parts: dict[str, Backoff] = {}

    def of(self, queue: str | None) -> Backoff:
        """Return the backoff of one queue, which may be away by itself: waiting for it delays
        nothing else.
        """
        if queue is None:
            return self
        part = self._parts.setdefault(queue, Backoff(self._longest))
        part.hurries = self.hurries
        if self._is_brief:
            part.be_brief()
        return part

    def be_brief(self) -> None:
        """Somebody wants the worker to go: no answer is waited for for long, and what failed is
        tried again soon.
        """
        if not self._is_brief:
            self._is_brief = True
            self._longest = self._pause = min(_BRIEF_PAUSE_S, self._longest)
            self._not_before = 0.0

    def attempt(self, step: Callable[[], object]) -> bool:
        """Do what needs the store; False if it is not the time, or if it failed: leave it then."""
        if moment() < self._not_before and not self.hurries:
            return False
        try:
            self._do(step)
        except Hurry:
            logger.warning("the store has not answered, and there is no time to wait for it")
            self.rest(self.next_pause())
            return False
        except StoreError as error:
            pause = self.next_pause()
            self.rest(pause)
            log_once.warn_once(logger, f"asking the store again in {pause:.1f} s", error)
            return False
        self.reset()
        return True

    def _do(self, step: Callable[[], object]) -> None:
        try:
            self._asks = True
            if self.hurries or self._is_brief:
                signal.setitimer(
                    signal.ITIMER_REAL, _HURRY_TIMEOUT_S if self.hurries else _BRIEF_TIMEOUT_S
                )
            step()
        finally:
            self._asks = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def shorten_call(self) -> None:
        """Let a call to the store that is under way be over soon; called by a signal."""
        if any(each._asks for each in (self, *self._parts.values())):
            signal.setitimer(signal.ITIMER_REAL, _BRIEF_TIMEOUT_S)

    def take_interrupt(self) -> bool:
        """Return whether a call to the store is under way and may be interrupted; true once."""
        asking = [each for each in (self, *self._parts.values()) if each._asks]
        for each in asking:
            each._asks = False
        return bool(asking)

    def reset(self) -> None:
        """Make the next pause a short one again."""
        self._pause = SHORTEST_PAUSE_S

    def rest(self, seconds: float) -> None:
        """Ask nothing of the store for so long."""
        self._not_before = moment() + seconds

    def remaining_s(self) -> float:
        """Return how long nothing may be asked."""
        return max(0.0, self._not_before - moment())

    def next_pause(self) -> float:
        """Longer each time."""
        pause, self._pause = self._pause, min(self._pause * 2, self._longest)
        return pause
