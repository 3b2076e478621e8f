"""Hearing at once that a keeper has put a file into its place, through inotify.

It is a convenience: names may get lost, and not every file system tells. Whoever waits looks by
itself now and then.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MOVED_TO = 0x80
_IGNORED, _OVERFLOW = 0x8000, 0x4000
"""The folder is gone; there was more than the kernel could keep."""
_HEADER = struct.Struct("iIII")
_READ_BYTES = 65536


class Renames:
    """Folders, and the names of the files that are awaited in each."""

    def __init__(self) -> None:
        """Raise OSError where there is no inotify."""
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self.descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError as error:
            raise OSError(f"no inotify: {error}") from None
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._awaited: dict[int, frozenset[bytes]] = {}

    def watch(self, folder: Path, names: Iterable[str]) -> bool:
        """Await these names in the folder from now on, and no others; False if that can't be."""
        watch = self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), _MOVED_TO)
        if watch < 0:
            return False
        self._awaited[watch] = frozenset(map(os.fsencode, names))
        return True

    def read_news(self) -> bool:
        """Take what the kernel has to say; return whether one of the names came."""
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self.descriptor, _READ_BYTES)
        position, has_come = 0, False
        while position < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            name = data[position : position + length].rstrip(b"\0")
            position += length
            has_come |= bool(mask & _OVERFLOW) or name in self._awaited.get(watch, ())
            if mask & _IGNORED:
                self._awaited.pop(watch, None)
        return has_come
