"""A store that can't be used is told of once in a while, whichever parts of a program find out."""

from __future__ import annotations

import logging
import threading
import time

_REPEAT_AFTER_S = 60.0
"""For how long the same is not told again, in seconds."""

_told: dict[tuple[str, str], float] = {}
_guard = threading.Lock()


def tell(
    logger: logging.Logger, what: str, error: Exception, *, whoever_told: bool = False
) -> None:
    """A warning with what follows and why; who wants to hear of each time listens for details.

    `whoever_told`: what follows matters more than the error, so it is told also if somebody else
    has told of that.
    """
    is_news = _is_news(what if whoever_told else "", str(error))
    logger.log(logging.WARNING if is_news else logging.DEBUG, "%s: %s", what, error)


def is_over() -> None:
    """The next one is news."""
    with _guard:
        _told.clear()


def _is_news(what: str, error: str) -> bool:
    with _guard:
        now = time.monotonic()
        for known in [each for each, at in _told.items() if now - at >= _REPEAT_AFTER_S]:
            del _told[known]
        is_known = (what, error) in _told
        _told.setdefault((what, error), now)
        _told.setdefault(("", error), now)
        return not is_known
