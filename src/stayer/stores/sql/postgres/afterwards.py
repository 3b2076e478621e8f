"""What is done after a commit, and never as a part of it: waking those who wait, and upkeep.

NOTIFY takes a lock that all who notify share until their commit is on disk. So it is sent by a
thread of its own, for all that this process has committed meanwhile, in a transaction that does not
wait for the disk. If the process dies before that, those who wait look by themselves after some
seconds.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterable

from stayer.core.errors import StayerError
from stayer.stores.sql.forking import mind_forks

_SPACING = 0.005
"""The least time between two sendings: under load there is one for many commits."""
_UNHEARD = 0.05
"""The same after one that nobody has heard. Each of eight processes that submit as fast as they can
would else send two hundred times a second, to nobody."""
_UPKEEP = 1.0
"""How often what was counted is put together, while there is something new."""
_IDLE = 5.0
"""How long the thread waits for more before it ends."""
_CLOSE_TIMEOUT_S = 5.0
"""How long somebody who closes the store waits for what is still to be sent."""


class Afterwards:
    """Collects what is to be sent and sends it soon."""

    def __init__(
        self, send: Callable[[list[str], bool], bool], upkeep: Callable[[], object]
    ) -> None:
        self._send = send
        self._upkeep = upkeep
        self.after_fork()
        mind_forks(self)
        atexit.register(_close, weakref.ref(self))

    def after_fork(self) -> None:
        """The thread, and what it was to send, are the parent's."""
        self._guard = threading.Condition()
        self._messages: dict[str, None] = {}
        self._has_events = self._has_counts = False
        self._is_closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._kept_up = time.monotonic()

    def note_commit(self, messages: Iterable[str], has_events: bool) -> None:
        """Something was committed that these messages tell of."""
        with self._guard:
            self._messages.update(dict.fromkeys(messages))
            self._has_events |= has_events
            self._has_counts = True
            if self._thread is None:
                self._is_closing.clear()
                self._thread = threading.Thread(target=self._run, name="stayer-wake", daemon=True)
                self._thread.start()
            self._guard.notify()

    def close(self) -> None:
        """Send what there is, and end the thread."""
        with self._guard:
            self._is_closing.set()
            self._guard.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            messages, has_events, is_time = found
            spacing = _SPACING
            try:
                if (messages or has_events) and not self._send(messages, has_events):
                    spacing = _UNHEARD
                if is_time:
                    self._upkeep()
            except StayerError:
                pass  # whoever asks the store for something hears why
            self._is_closing.wait(spacing)

    def _next(self) -> tuple[list[str], bool, bool] | None:
        """What is to be sent now, and whether it is time for upkeep; None: nothing more."""
        with self._guard:
            while True:
                due = self._kept_up + _UPKEEP - time.monotonic()
                is_time = self._has_counts and due <= 0 and not self._is_closing.is_set()
                if self._messages or self._has_events or is_time:
                    found = list(self._messages), self._has_events, is_time
                    self._messages, self._has_events = {}, False
                    if is_time:
                        self._has_counts, self._kept_up = False, time.monotonic()
                    return found
                wait = due if self._has_counts else _IDLE
                if self._is_closing.is_set() or not (self._guard.wait(wait) or self._has_counts):
                    self._thread = None
                    return None


def _close(reference: weakref.ref[Afterwards]) -> None:
    found = reference()
    if found is not None:
        found.close()
