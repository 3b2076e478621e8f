"""The task's log: what comes out of its pipe goes into a file, kept from filling the disk.

The task does not have the file itself: `echo text > /dev/stderr`, in a script of somebody who means
no harm, would empty it.
"""

from __future__ import annotations

import fcntl
import os

from .folder import RunDirectory
from .kernel import punch

_HEAD = 1_000_000
_PIECE = 16_384
_AT_ONCE = 1_000_000
"""Whoever writes without end must not keep us from all else."""


class Log:
    """Of which the head and the tail are kept, `cap` bytes together; 0: all of it."""

    def __init__(self, folder: RunDirectory, cap: int) -> None:
        self._folder = folder
        self._cap = cap
        self._head = min(_HEAD, cap // 4)
        self._size = 0
        self._punched = self._head
        self._source: int | None = None
        self._file: int | None = None
        self._unwritten = 0

    def open(self) -> int:
        """For the task to write to. SIGIO tells us when it has."""
        self._file = self._folder.task.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._source, end = os.pipe()
        fcntl.fcntl(self._source, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._source, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        return end

    def pump(self) -> int:
        """Move what has come into the file; how many bytes."""
        moved = 0
        while self._source is not None and moved < _AT_ONCE:
            try:
                data = os.read(self._source, _PIECE)
            except BlockingIOError:
                break
            if not data:
                break
            self._write(data)
            moved += len(data)
        return moved

    def trim(self) -> bool:
        """Give the middle back; True if it grows so fast that we should look again soon."""
        if not self._cap or self._file is None:
            return False
        size = os.fstat(self._file).st_size
        grown, self._size = size - self._size, size
        end = size - (self._cap - self._head)
        if end > self._punched:
            self._punch(self._file, end)
        return grown > self._cap // 8

    def _write(self, data: bytes) -> None:
        """A full disk costs the log, not the task; the gap is told of."""
        assert self._file is not None
        try:
            if self._unwritten:
                said = f"\n[stayer: {self._unwritten} bytes of the log could not be written]\n"
                if os.write(self._file, said.encode()) == len(said):
                    self._unwritten = 0
            self._unwritten += len(data) - os.write(self._file, data)
        except OSError:
            self._unwritten += len(data)

    def _punch(self, file: int, end: int) -> None:
        if punch(file, self._punched, end):
            self._punched = end
        else:  # this file system can't: the head is what we can keep
            os.ftruncate(file, self._head)
