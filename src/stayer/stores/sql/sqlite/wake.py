"""Waking up when another process has written to the database file.

Linux tells at once, through inotify, that the write-ahead log has grown; nothing runs while nothing
happens. Elsewhere, or where inotify can't be had, the mark is looked at every few hundredths of a
second.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

_MODIFY, _CREATE, _MOVED_TO = 0x2, 0x100, 0x80
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_HEADER = struct.Struct("iIII")
_SETTLING = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""When to look again after the file was touched: the last bytes of a commit are written a moment
before it can be seen, and that moment itself makes no noise."""
_BREATH = (0.0002, 0.005)
"""How long to wait before looking again at a file that is touched again: at first, and where others
write without a pause. A commit is several writes, and most are small; but a look costs a tenth of a
millisecond, and who writes a lot must not pay for all who wait."""
_POLL_S = 0.05
_LOOK_ANYWAY_S = 5.0
"""Look this often in any case."""


class Bell(Protocol):
    """Rings when the file may have changed."""

    def wait(self, timeout: float) -> bool:
        """True if it rang."""

    def ring(self) -> None:
        """Ring it, from another thread."""

    def close(self) -> None:
        """Stop listening."""


class Inotify:
    """Listens to the folder, for the log file comes and goes."""

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(os.path.realpath(path))  # SQLite follows links too
        self._wanted = os.fsencode(name + "-wal")
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_NONBLOCK_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = _MODIFY | _CREATE | _MOVED_TO
        if libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask) < 0:
            number = ctypes.get_errno()
            os.close(self._descriptor)
            raise OSError(number, "inotify_add_watch")
        self._rope = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        self._poll.register(self._rope, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, left) * 1000)]
            if not ready:
                return False
            if self._rope in ready:
                os.eventfd_read(self._rope)
                return True
            if self._concerned():
                return True

    def ring(self) -> None:
        os.eventfd_write(self._rope, 1)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            os.close(self._rope)
            self._descriptor = -1

    def _concerned(self) -> bool:
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return False
        position, concerned = 0, False
        while position < len(data):
            _, _, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            concerned |= data[position : position + length].rstrip(b"\0") == self._wanted
            position += length
        return concerned


class Polling:
    """Rings all the time: whoever hears it looks for himself."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def wait(self, timeout: float) -> bool:
        self._rung.wait(min(timeout, _POLL_S))
        self._rung.clear()
        return True

    def ring(self) -> None:
        self._rung.set()

    def close(self) -> None:
        pass


def bell_for(path: str) -> Bell:
    """The best bell that this machine has."""
    if sys.platform == "linux":
        try:
            return Inotify(path)
        except (OSError, AttributeError):
            pass
    return Polling()


class FileWaiter:
    """Waits until a mark that the store gives has changed (see `Waiter`)."""

    def __init__(self, bell: Bell, mark: Callable[[], object]) -> None:
        self._bell = bell
        self._mark = mark
        self._seen = mark()
        self._rung = False

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        looks = len(_SETTLING)
        breath = _BREATH[0]
        while not self._changed():
            looked = time.monotonic()
            left = _LOOK_ANYWAY_S
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
            if left <= 0:
                return False
            if self._rung:
                break
            settling = looks < len(_SETTLING)
            if self._bell.wait(min(left, _SETTLING[looks]) if settling else left):
                if settling:
                    time.sleep(max(0.0, looked + breath - time.monotonic()))
                    breath = min(2 * breath, _BREATH[1])
                else:
                    breath = _BREATH[0]
                looks = 0
            else:
                looks += 1
        self._rung = False
        return True

    def ring(self) -> None:
        self._rung = True
        self._bell.ring()

    def close(self) -> None:
        self._bell.close()

    def _changed(self) -> bool:
        mark = self._mark()
        changed, self._seen = mark != self._seen, mark
        return changed
