"""Signals to a worker, kept until its loop has time for them."""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType

from stayer.worker.wakeup import Bell

logger = logging.getLogger("stayer.worker")


HANDLED_SIGNALS = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT,
)  # fmt: skip


class Hurry(BaseException):
    """Somebody wants the worker gone now: whatever waits for the store waits no longer."""


class Signals:
    """Those that came and have not been taken."""

    def __init__(
        self,
        take_interrupt: Callable[[], bool] = lambda: False,
        shorten_call: Callable[[], None] = lambda: None,
    ) -> None:
        """`take_interrupt`: True if the loop waits for the store now, and is to stop waiting;
        `shorten_call`: it is to stop soon.
        """
        self._pending: deque[int] = deque()
        self._take_interrupt = take_interrupt
        self._shorten_call = shorten_call

    def listen(self, bell: Bell) -> None:
        """Keep those that mean something from now on, and let each wake the loop."""
        if threading.current_thread() is not threading.main_thread():
            return  # in tests
        for number in (*HANDLED_SIGNALS, signal.SIGALRM):
            signal.signal(number, self._keep)
        bell.ring_on_signals()

    def add(self, number: int, bell: Bell) -> None:
        """Add a signal as if it had come: somebody far away wants what it means."""
        self._pending.append(number)
        bell.ring()

    def take_all(self) -> Iterator[int]:
        """Each, in the order in which they came."""
        while self._pending:
            number = self._pending.popleft()
            logger.info("got %s", signal.Signals(number).name)
            yield number

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            self._pending.append(number)
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._shorten_call()  # the loop does not hear of it before the store has answered
        if number in (signal.SIGQUIT, signal.SIGALRM) and self._take_interrupt():
            raise Hurry
