"""The fair writer lock: whoever comes first writes first.

SQLite's own waiting is a game of chance in which one writer can lose for seconds. An `flock` on a
file beside the database gives turns in order of arrival, and falls with its process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stayer.stores.sql.forking import mind_forks
from stayer.stores.sql.sqlite.rights import make_lock

try:
    import fcntl
except ImportError:  # not Unix: SQLite's own lock must do
    fcntl = None  # type: ignore[assignment]


class LockTimeout(Exception):
    """The turn did not come; `holders` are the processes that have the lock."""

    def __init__(self, holders: list[int]) -> None:
        super().__init__(f"locked by {holders}")
        self.holders = holders


class WriterLock:
    """A place in the line of writers. Each belongs to one connection: a descriptor of its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._usable = fcntl is not None
        self._helper: threading.Thread | None = None
        mind_forks(self)

    def after_fork(self) -> None:
        """Leave it to the parent: a descriptor that a child keeps would keep the lock, too, if the
        parent died with it.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @contextmanager
    def held(self, timeout: float) -> Iterator[None]:
        """Have the lock for the body's time."""
        self._open()
        if self._usable:
            self._acquire(timeout)
        try:
            yield
        finally:
            if self._usable and self._descriptor >= 0:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the descriptor back; a helper that still waits for its turn does it instead."""
        helper, self._helper = self._helper, None
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0 and (helper is None or not helper.is_alive()):
            os.close(descriptor)

    def _open(self) -> None:
        """Only a writer makes the file: whoever just reads leaves no trace."""
        if not self._usable or self._descriptor >= 0:
            return
        try:
            self._descriptor = make_lock(self._path, self._path.removesuffix("-lock"))
        except OSError:  # a read-only folder: let SQLite say so, in its own words
            self._usable = False

    def _acquire(self, timeout: float) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue_up(timeout)
        except OSError:  # a file system without locks: SQLite's own lock must do
            self._usable = False

    def _queue_up(self, timeout: float) -> None:
        """Wait in the kernel's line. It knows no time limit, so a helper thread waits there: a
        process that was stopped with the lock in its hand must not hang everybody for ever."""
        outcome = _Turn(self._descriptor)
        self._helper = threading.Thread(target=outcome.wait_for_it, daemon=True)
        self._helper.start()
        try:
            came = outcome.came.wait(timeout)
        except BaseException:  # Ctrl-C while waiting: the turn must not come to nobody
            if outcome.taken():
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            else:
                self._descriptor = -1
            raise
        if not came and not outcome.taken():
            holders = _holders(self._descriptor)
            self._descriptor = -1  # the helper closes it when it wakes
            raise LockTimeout(holders)
        self._helper = None


class _Turn:
    """One wait for the lock, shared by the helper that waits and the thread that wants it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._given_up = False
        self.came = threading.Event()

    def wait_for_it(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._guard:
            if self._given_up:
                os.close(self._descriptor)
            else:
                self.came.set()

    def taken(self) -> bool:
        """After the time is over: did it come at the last moment? Else the helper gives it up."""
        with self._guard:
            self._given_up = not self.came.is_set()
            return not self._given_up


def _holders(descriptor: int) -> list[int]:
    """The processes that hold a lock on this file, as far as the kernel tells."""
    inode = os.fstat(descriptor).st_ino
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            rows = [line.split() for line in locks if "->" not in line]
    except OSError:
        return []
    return sorted({int(row[4]) for row in rows if row[5].rsplit(":", 1)[-1] == str(inode)})
