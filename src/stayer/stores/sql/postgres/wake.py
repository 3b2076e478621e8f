"""Waking up when others have committed: LISTEN, on one connection for all who wait in this process.

Where nobody can listen (a pooler is between, `listen=no`), and in any case once in a while, those
who wait look for themselves.
"""

from __future__ import annotations

import functools
import os
import select
import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol

import psycopg

from stayer.stores.sql.forking import mind_forks

REPAIR = 5.0
"""Look this often in any case: whoever was to send word may have died."""
POLL = (0.05, 1.0)
"""How often to look where nobody can listen: at first, and when nothing comes for a while."""
_BACKOFF = (0.2, 5.0)
"""How long to wait before the next try to listen."""
_UNUSED_CONNECTION_S = 10.0
"""How long the connection is kept when nobody waits any more."""
_CONNECT_TIMEOUT_S = 15.0
"""How long whoever begins to wait gives the connection to be made."""


class Opening(Protocol):
    """Opens a connection that listens to these channels."""

    def __call__(self, channels: Collection[str]) -> psycopg.Connection[tuple[object, ...]]: ...


class ServerWaiter:
    """Waits for messages (see `Waiter`); `wanted` None: any message on that channel."""

    def __init__(self, listener: Listener, channel: str, wanted: Collection[str] | None) -> None:
        self.channel = channel
        self._wanted = wanted
        self._listener = listener
        self._rung = threading.Event()
        self._poll = POLL[0]
        listener.add(self)

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        hears = self._listener.hears
        longest = REPAIR if hears else self._poll
        left = longest if deadline is None else min(longest, deadline - time.monotonic())
        if self._rung.wait(max(0.0, left)):
            self._rung.clear()
            self._poll = POLL[0]
            return True
        if not hears:
            self._poll = min(2 * self._poll, POLL[1])
        # Over a part of the time only: then it is to look for itself.
        return left >= longest

    def ring(self) -> None:
        self._rung.set()

    def close(self) -> None:
        self._listener.remove(self)

    def hear(self, message: str) -> None:
        """Somebody has sent this."""
        if self._wanted is None or message in self._wanted:
            self._rung.set()


def _hear_of(message: psycopg.Notify, waiter: ServerWaiter) -> None:
    if waiter.channel == message.channel:
        waiter.hear(message.payload)


class Listener:
    """One connection and one thread that hear for all who wait in this process; none while nobody
    does.
    """

    def __init__(self, opening: Opening | None, channels: Collection[str]) -> None:
        self._opening = opening
        self._channels = channels
        self._rope: tuple[int, int] | None = None
        """What wakes the thread; there is none before there was one."""
        self.after_fork()
        mind_forks(self)

    def after_fork(self) -> None:
        """The thread, and those who waited, are the parent's."""
        self._drop_rope()
        self._guard = threading.Lock()
        self._waiters: set[ServerWaiter] = set()
        self._thread: threading.Thread | None = None
        self._tried = threading.Event()
        self._is_left = False
        self.hears = False
        """Whether what is sent now comes here."""

    def add(self, waiter: ServerWaiter) -> None:
        """From now on this one hears what is sent; if nobody can listen, it polls."""
        with self._guard:
            self._waiters.add(waiter)
            if self._thread is None and self._opening is not None:
                self._tried.clear()
                self._is_left = False
                if self._rope is None:
                    self._rope = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self._thread = threading.Thread(
                    target=self._listen, name="stayer-listen", daemon=True
                )
                self._thread.start()
        if self._opening is not None:
            self._tried.wait(_CONNECT_TIMEOUT_S)

    def remove(self, waiter: ServerWaiter) -> None:
        """This one waits no more."""
        with self._guard:
            self._waiters.discard(waiter)

    def close(self) -> None:
        """End the thread and the connection; whoever still waits looks for himself."""
        with self._guard:
            thread = self._thread
            self._is_left = True
        if thread is not None:
            assert self._rope is not None
            os.write(self._rope[1], b"x")
            thread.join(_CONNECT_TIMEOUT_S)
        if thread is None or not thread.is_alive():
            self._drop_rope()

    def __del__(self) -> None:
        self._drop_rope()

    def _drop_rope(self) -> None:
        rope, self._rope = self._rope, None
        for end in rope or ():
            os.close(end)

    def _listen(self) -> None:
        pause = _BACKOFF[0]
        assert self._opening is not None
        while not self._is_over():
            try:
                connection = self._opening(self._channels)
            except Exception:  # whoever asks the store for something hears why
                self._tried.set()
                self._pause(pause)
                pause = min(2 * pause, _BACKOFF[1])
                continue
            pause = _BACKOFF[0]
            try:
                self._hear(connection)
            except (psycopg.Error, OSError):
                pass  # it is made again
            finally:
                self.hears = False
                connection.close()

    def _hear(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Pass on what is sent, until the connection is lost or nobody needs it."""
        self.hears = True
        if self._tried.is_set():  # somebody waits already, and may have missed something
            self._tell(lambda waiter: waiter.ring())
        self._tried.set()
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        assert self._rope is not None
        poll.register(self._rope[0], select.POLLIN)
        while not self._is_left:
            ready = poll.poll(_UNUSED_CONNECTION_S * 1000)
            for message in connection.notifies(timeout=0):
                self._tell(functools.partial(_hear_of, message))
            if not ready and self._is_over():
                return

    def _pause(self, seconds: float) -> None:
        poll = select.poll()
        assert self._rope is not None
        poll.register(self._rope[0], select.POLLIN)
        poll.poll(seconds * 1000)

    def _is_over(self) -> bool:
        """Whether nobody needs the thread; then it is gone for those who come later."""
        with self._guard:
            if self._waiters and not self._is_left:
                return False
            self._thread = None
            self.hears = False
            return True

    def _tell(self, tell: Callable[[ServerWaiter], None]) -> None:
        with self._guard:
            waiters = list(self._waiters)
        for waiter in waiters:
            tell(waiter)
