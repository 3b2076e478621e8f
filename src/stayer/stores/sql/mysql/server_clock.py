"""The server's time, without asking for it each time.

It is asked about once a second; in between this process's own clock tells how much time has passed.
That one goes on while the machine sleeps, and nobody can set it, so the clock on the wall may be
hours off.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_EVERY = 1.0
_STEP = 1.0
"""A server whose clock is set back by more is believed; less may be the way there and back."""
_elapsed: Callable[[], float] = (
    (lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class ServerClock:
    """Tells the time of a server; `ask` gets it from there."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._known: tuple[float, float] | None = None
        self._last = 0.0

    def __call__(self) -> float:
        here = _elapsed()
        known = self._known
        if known is None or here - known[0] > _EVERY:
            known = self._asked()
            here = _elapsed()
        now = known[1] + (here - known[0])
        if self._last - _STEP < now < self._last:
            now = self._last
        self._last = now
        return now

    def _asked(self) -> tuple[float, float]:
        before = _elapsed()
        told = self._ask()
        after = _elapsed()
        self._known = ((before + after) / 2, told)
        return self._known
