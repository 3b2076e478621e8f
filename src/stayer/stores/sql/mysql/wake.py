"""Waiting by looking: there is nothing here that would tell.

A look is one statement over two small indexes. It comes quickly after something has happened, and
ever more slowly when nothing does: after 2 ms at first, each time half as long again, up to 100 ms;
after ten seconds in which nothing came, up to 250 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_FIRST, _SLOWER = 0.002, 1.5
_BUSY, _QUIET = 0.1, 0.25
_QUIET_AFTER_S = 10.0


class PollingWaiter:
    """Waits until a mark that the store gives has changed (see `Waiter`)."""

    def __init__(self, mark: Callable[[], object]) -> None:
        self._mark = mark
        self._seen = mark()
        self._rung = threading.Event()
        self._news = time.monotonic()

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST
        while not self._changed():
            now = time.monotonic()
            longest = _BUSY if now - self._news < _QUIET_AFTER_S else _QUIET
            left = longest if deadline is None else deadline - now
            if left <= 0:
                return False
            if self._rung.wait(min(pause, left)):
                break
            pause = min(pause * _SLOWER, longest)
        self._rung.clear()
        self._news = time.monotonic()
        return True

    def ring(self) -> None:
        self._rung.set()

    def close(self) -> None:
        pass

    def _changed(self) -> bool:
        mark = self._mark()
        changed, self._seen = mark != self._seen, mark
        return changed
