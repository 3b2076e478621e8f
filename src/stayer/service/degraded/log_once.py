"""Warning of a store that can't be used once in a while, whichever parts of a program find out."""

from __future__ import annotations

import logging
import threading
import time

_REPEAT_AFTER_S = 60.0
"""For how long the same is no warning again."""

_logged_at: dict[tuple[str, str], float] = {}
_guard = threading.Lock()


def warn_once(
    logger: logging.Logger, what: str, error: Exception, *, even_if_logged: bool = False
) -> None:
    """Log a warning with what follows and why; each further time is for who listens to details.

    `even_if_logged`: what follows matters more than the error, so it is a warning also if somebody
    else has warned of that.
    """
    is_news = _is_new(what if even_if_logged else "", str(error))
    logger.log(logging.WARNING if is_news else logging.DEBUG, "%s: %s", what, error)


def is_over() -> None:
    """Forget what was logged: the next one is news."""
    with _guard:
        _logged_at.clear()


def _is_new(what: str, error: str) -> bool:
    with _guard:
        now = time.monotonic()
        for known in [each for each, at in _logged_at.items() if now - at >= _REPEAT_AFTER_S]:
            del _logged_at[known]
        is_known = (what, error) in _logged_at
        _logged_at.setdefault((what, error), now)
        _logged_at.setdefault(("", error), now)
        return not is_known
