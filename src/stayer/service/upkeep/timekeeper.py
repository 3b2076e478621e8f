"""What time brings, seen to in a thread: for a server whose workers are not at the database."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping

from stayer.core.errors import StoreError
from stayer.core.queue_model import Kept
from stayer.service.degraded import log_once
from stayer.service.lease.heartbeat import moment
from stayer.service.upkeep import due_work
from stayer.service.upkeep.due_work import Forgetting
from stayer.store import Store

logger = logging.getLogger(__name__)

_LONGEST_SLEEP_S = 60.0
_INCOMING_POLL_S = 1.0
"""How often to look for what programs have pushed: workers hear of it, and are quicker."""
_SHORTEST_SLEEP_S = 0.005
_STORE_RETRY_S = 2.0
_FORGET_INTERVAL_S = 600.0
_FIRST_FORGET_S = 60.0


class Timekeeper:
    """Makes due tasks pending, fires schedules, forgets what was kept for long enough."""

    def __init__(
        self, store: Store, retention: Mapping[Kept, float], on_due: Callable[[], None]
    ) -> None:
        """`on_due` is called when something may have become available by the passing of time."""
        self._store = store
        self._on_due = on_due
        self._forgetting = Forgetting(retention)
        self._next_forget = moment() + _FIRST_FORGET_S
        self._stirred = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin, unless it has."""
        with self._starting:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="timekeeper", daemon=True)
                self._thread.start()

    def look_again(self) -> None:
        """Something may be due sooner than it was known; to be called from any thread."""
        self._stirred.set()

    def stop(self) -> None:
        """End."""
        self._stopping = True
        self._stirred.set()

    def _run(self) -> None:
        while not self._stopping:
            try:
                pause = self._look()
            except StoreError as error:
                log_once.warn_once(logger, "what is due waits", error, even_if_logged=True)
                pause = _STORE_RETRY_S
            except Exception:
                logger.exception("what is due waits")
                pause = _STORE_RETRY_S
            if not self._stirred.wait(max(_SHORTEST_SLEEP_S, pause)):
                self._on_due()
            self._stirred.clear()

    def _look(self) -> float:
        following = due_work.elapse(self._store)
        if moment() >= self._next_forget:
            has_more = self._forgetting.step(self._store)
            later = _FORGET_INTERVAL_S * random.uniform(0.5, 1.5)
            self._next_forget = moment() + (0.0 if has_more else later)
        longest = _INCOMING_POLL_S if self._store.has_incoming else _LONGEST_SLEEP_S
        ahead = longest if following is None else following - self._store.now()
        return min(ahead, longest, max(0.0, self._next_forget - moment()))
