"""A store that can't be used is told of once in a while, whichever parts of a program find out."""

from __future__ import annotations

import logging
import threading
import time

_QUIET = 60.0
"""For how long the same is not told again, in seconds."""

_told: dict[str, float] = {}
_guard = threading.Lock()


def tell(logger: logging.Logger, what: str, error: Exception) -> None:
    """A warning with what follows and why; who wants to hear of each time listens for details."""
    logger.log(logging.WARNING if _is_news(str(error)) else logging.DEBUG, "%s: %s", what, error)


def is_over() -> None:
    """The next one is news."""
    with _guard:
        _told.clear()


def _is_news(text: str) -> bool:
    with _guard:
        now = time.monotonic()
        for known in [each for each, at in _told.items() if now - at >= _QUIET]:
            del _told[known]
        if text in _told:
            return False
        _told[text] = now
        return True
