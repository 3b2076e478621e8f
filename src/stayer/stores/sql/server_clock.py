"""The server's time, without asking for it again and again."""

from __future__ import annotations

import time
from threading import Lock

from stayer.stores.sql.forking import mind_forks

_ANSWER_VALID_S = 1.0
"""For how long what the server said is carried on by this machine's own count of seconds."""
_BEST_ANSWER_VALID_S = 10.0
"""For how long a better answer is kept against worse ones; two machines count differently."""
_CLOCK_WAS_SET_S = 0.5
"""A difference over which the server's clock was set, and this one follows at once."""


class ServerClock:
    """What the server's clock says, at most: never ahead of it, and never running backwards unless
    the server's does. It knows nothing of this machine's time of day, which may be wrong.
    """

    def __init__(self) -> None:
        self._ahead: float | None = None
        self._heard = self._best_at = 0.0
        self.after_fork()
        mind_forks(self)

    def after_fork(self) -> None:
        """Another thread may have had the lock."""
        self._guard = Lock()

    def set(self, said: float) -> float:
        """The server has just said what time it is."""
        here = _count()
        ahead = said - here
        with self._guard:
            is_old = self._ahead is None or here - self._best_at > _BEST_ANSWER_VALID_S
            # A smaller one only tells that this answer was under way for longer.
            if is_old or self._ahead is None or not -_CLOCK_WAS_SET_S < ahead - self._ahead <= 0:
                self._ahead, self._best_at = ahead, here
            self._heard = here
        return said

    def read(self) -> float | None:
        """The time by what was heard lately; None if the server has to be asked."""
        here = _count()
        with self._guard:
            if self._ahead is None or here - self._heard > _ANSWER_VALID_S:
                return None
            return here + self._ahead


def _count() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
