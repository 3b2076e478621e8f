"""The task's log: it writes there by itself, we only keep it from filling the disk."""

from __future__ import annotations

import os

from .folder import RunDirectory
from .kernel import punch

_HEAD = 1_000_000


class Log:
    """Of which the head and the tail are kept, `cap` bytes together; 0: all of it."""

    def __init__(self, folder: RunDirectory, cap: int) -> None:
        self._folder = folder
        self._cap = cap
        self._head = min(_HEAD, cap // 4)
        self._size = 0
        self._punched = self._head

    def trim(self) -> bool:
        """Give the middle back; True if it grows so fast that we should look again soon."""
        seen = self._folder.seen("log") if self._cap else None
        if seen is None:
            return False
        grown, self._size = seen.st_size - self._size, seen.st_size
        end = seen.st_size - (self._cap - self._head)
        if end > self._punched:
            self._punch(end)
        return grown > self._cap // 8

    def _punch(self, end: int) -> None:
        try:
            descriptor = self._folder.open("log", os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return
        if punch(descriptor, self._punched, end):
            self._punched = end
        else:  # this file system can't: the head is what we can keep
            os.ftruncate(descriptor, self._head)
        os.close(descriptor)
