"""Looking, in threads, for what no change of a task brings: lost workers, late or silent tasks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from stayer.core.errors import StoreError
from stayer.core.notify.hooks import Rules
from stayer.service.degraded import log_once
from stayer.service.notify.lost_workers import LostWorkers
from stayer.service.notify.slow_tasks import SlowTasks
from stayer.store import Store

logger = logging.getLogger("stayer.service.notify")

_STOP_TIMEOUT_S = 2.0


class Looker(Protocol):
    """Who looks again and again."""

    what: str
    pause: float

    def look(self, moment: float) -> None:
        """Look once, at a moment of a clock that never goes back."""


@contextmanager
def look_meanwhile(store: Store, rules: Callable[[], Rules], *, is_server: bool) -> Iterator[None]:
    """Look meanwhile, by the rules of the moment."""
    if store.remote_operator is not None:  # the server itself looks
        yield
        return
    lookers: tuple[Looker, ...] = (
        LostWorkers(store, lambda: rules().worker_lost),
        SlowTasks(store, rules, is_server=is_server),
    )
    stopping = threading.Event()
    threads = [
        threading.Thread(target=_look_until, args=(stopping, each), name=each.what, daemon=True)
        for each in lookers
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join(_STOP_TIMEOUT_S)


def _look_until(stopping: threading.Event, looker: Looker) -> None:
    while not stopping.wait(looker.pause):
        try:
            looker.look(time.monotonic())
        except StoreError as error:
            log_once.warn_once(logger, f"{looker.what} are looked for later", error)
        except Exception:  # whatever it is, the next look may find more
            logger.exception("%s are looked for later", looker.what)
