"""Waiting for a store that is away, for those who wait for hours anyway."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from stayer.core.errors import StoreUnreachable

logger = logging.getLogger("stayer")

_RETRY_PAUSES_S = (0.1, 5.0)
"""The shortest and the longest time between two tries."""
_MEANWHILE = "What runs goes on while its lease lasts, then stands still until the store is back"

T = TypeVar("T")
Tell = Callable[[str], object]


def deadline_in(timeout: float | None) -> float | None:
    """Tell when so many seconds are over; None: never."""
    return None if timeout is None else time.monotonic() + timeout


def time_left(deadline: float | None) -> float | None:
    """Tell how long it is until then, in seconds."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def retry_while_unreachable(
    ask: Callable[[], T], deadline: float | None, tell: Tell = logger.warning
) -> T:
    """Ask the store; while it can't be reached, again and again up to the deadline, when the error
    is raised. `tell` says when that begins and ends.
    """
    pause, is_away = _RETRY_PAUSES_S[0], False
    while True:
        try:
            answer = ask()
        except StoreUnreachable as error:
            left = _RETRY_PAUSES_S[1] if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise
            if not is_away:
                tell(f"{error}; trying again. {_MEANWHILE}")
            is_away = True
            time.sleep(min(pause, left))
            pause = min(2 * pause, _RETRY_PAUSES_S[1])
        else:
            if is_away:
                tell("the store answers again")
            return answer
