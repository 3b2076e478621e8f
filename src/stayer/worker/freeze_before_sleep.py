"""Stopping tasks before this machine sleeps, where logind tells of it.

Without it all is well too: keepers stop their tasks when the machine wakes up. But then a task runs
for some milliseconds before it is stopped, which others may have begun anew meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from stayer.worker.logind import Logind

logger = logging.getLogger("stayer.worker")

_FREEZE_TIMEOUT_S = 3.0
"""How long tasks may take to stand still: logind waits for five seconds."""
_FREEZE_POLL_S = 0.02
RECONNECT_S = 30.0
"""How long to wait before logind is looked for again, where it had been there."""
_ANNOUNCED_SLEEP_TIMEOUT_S = 60.0
"""After how long awake an announced sleep has not come."""


class SleepWatcher:
    """Listens in a thread of its own; what there is to do is done by whoever rings are for."""

    def __init__(self, ring: Callable[[], None], stands_still: Callable[[], bool]) -> None:
        """`ring` when a sleep has been announced, or is over; `stands_still` says that the machine
        need not wait for us any more.
        """
        self._ring = ring
        self._stands_still = stands_still
        self._announced_at: float | None = None

    @property
    def is_near(self) -> bool:
        """The machine is about to sleep, and has not woken up."""
        announced = self._announced_at
        return announced is not None and time.monotonic() - announced < _ANNOUNCED_SLEEP_TIMEOUT_S

    def start(self) -> None:
        """Listen, if there is anybody to listen to."""
        threading.Thread(target=self._listen, name="bedtime", daemon=True).start()

    def _listen(self) -> None:
        has_answered = False
        while True:
            try:
                with closing(Logind()) as logind:
                    has_answered = True
                    while True:
                        self._wait_for_sleep(logind)
            except OSError as error:
                logger.debug("not told before this machine sleeps: %s", error)
            finally:
                self._announced_at = None
            if not has_answered:
                return  # there is none on this machine
            time.sleep(RECONNECT_S)  # it is being restarted, by an upgrade for example

    def _wait_for_sleep(self, logind: Logind) -> None:
        try:
            lock = logind.delay_sleep()
        except PermissionError as error:  # only root may, where there is no polkit
            logger.debug("this machine does not wait before it sleeps: %s", error)
            lock = None
        try:
            while not logind.wait():
                pass
            self._announced_at = time.monotonic()
            logger.info("this machine is about to sleep: tasks are stopped")
            self._ring()
            end = time.monotonic() + _FREEZE_TIMEOUT_S
            while not self._stands_still() and time.monotonic() < end:
                time.sleep(_FREEZE_POLL_S)
        finally:
            if lock is not None:
                with suppress(OSError):
                    os.close(lock)
        while logind.wait():
            pass
        self._announced_at = None
        self._ring()
