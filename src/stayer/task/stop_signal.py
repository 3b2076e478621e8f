"""SIGTERM: the wish that the task stops, be it cancelled, over a limit or moved elsewhere.

It is sent again and again, and KILL follows when the grace is over.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from stayer.core.errors import Stopped
from stayer.task.context import Context


class CalledEachTime:
    """What is called each time that the task is asked to stop, but not while it is at it."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._is_running = False

    def __call__(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            self._function()
        finally:
            self._is_running = False


class StopSignalHandler:
    """Hears SIGTERM for a task, from when it is made until the work is over."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._over = False
        signal.signal(signal.SIGTERM, self._on_signal)
        os.register_at_fork(after_in_child=self._forget)

    def work_is_over(self) -> None:
        """Ignore stop signals from now on: what is done is done, and saving it must not be
        disturbed.
        """
        self._over = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again = self._context.cancelled
        stop_by = self._context.request_stop()
        if self._over:
            return
        if stop_by is not None:
            if not again or isinstance(stop_by, CalledEachTime):
                stop_by()
        elif not again or not _is_unwinding():
            raise Stopped("the task was asked to stop")

    def _forget(self) -> None:
        """Forked helpers die of SIGTERM as usual: their parents count on it."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            with suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_unwinding() -> bool:
    """Return whether somebody is cleaning up already; if not, the first Stopped was swallowed."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, Stopped):
            return True
        error = error.__context__
    return False
