"""Files of a run directory, where a task may have put anything in the place of anything.

All that a worker reads or writes there goes through here: it never waits for the other end of a
pipe, follows no link, and takes no more into memory than it was told to expect.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from stayer.worker.remove_tree import remove

_CHUNK_BYTES = 1 << 20
_OPEN_FLAGS = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

Fits: TypeAlias = Callable[[os.stat_result], bool]
"""Whether a file is one that may be read."""


class Part:
    """The part of a run directory that the task has, which may be another user's: then nothing but
    plain files of that user's own are read there. Its names can't be swapped: the folder around it
    is the worker's.
    """

    def __init__(self, folder: Path, owner: int | None = None, *, is_apart: bool = False) -> None:
        """`owner`: the user whose files they must be; None if any may be read."""
        self.folder = folder
        self.is_apart = is_apart
        self._owner = owner

    @classmethod
    def of(cls, folder: Path) -> Part | None:
        """Open the part of a folder; None if there is no such folder."""
        try:
            found = os.lstat(folder)
        except OSError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            return None
        return cls(folder, None if found.st_uid == os.geteuid() else found.st_uid, is_apart=True)

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of a plain file; None if there is none."""
        found = stat_file(self.folder / name)
        return found if found is not None and self.is_theirs(found) else None

    def read(self, name: str, most: int) -> bytes:
        """Read a whole file; raises NotPlainFile, TooLong, or what else is wrong with it."""
        return read(self.folder / name, most, self.is_theirs)

    def read_part(self, name: str, start: int, length: int) -> bytes:
        """Read at most so much of a file from there on; raises NotPlainFile and others."""
        return read_part(self.folder / name, start, length, self.is_theirs)

    def is_theirs(self, found: os.stat_result) -> bool:
        """Return whether it is a plain file, of this user's and with one name where
        that matters.
        """
        is_own = self._owner is None or (found.st_uid, found.st_nlink) == (self._owner, 1)
        return is_own and stat.S_ISREG(found.st_mode)


class NotPlainFile(OSError):
    """It is a pipe, a link, a folder, a device: no file that holds anything."""


class TooLong(OSError):
    """It is larger than anything that belongs there."""


def stat_file(path: Path) -> os.stat_result | None:
    """Return the status of a plain file; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def read(path: Path, most: int, fits: Fits = lambda _: True) -> bytes:
    """Read a whole file; raises NotPlainFile, TooLong, or what else is wrong with it."""
    descriptor, size = _open(path, fits)
    try:
        if size > most:
            raise TooLong(errno.EFBIG, f"{size} bytes, more than {most}", str(path))
        data = _read(descriptor, 0, most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise TooLong(errno.EFBIG, f"more than {most} bytes", str(path))
    return data


def read_part(path: Path, start: int, length: int, fits: Fits = lambda _: True) -> bytes:
    """Read at most so much of a file from there on; raises NotPlainFile and others."""
    descriptor, _ = _open(path, fits)
    try:
        return _read(descriptor, start, length)
    finally:
        os.close(descriptor)


def write(path: Path, data: bytes) -> None:
    """Make it a file with just this content: whatever else has been put there goes first."""
    if not _is_ours(path):
        clear(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _OPEN_FLAGS, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def make_way(path: Path) -> None:
    """Remove a folder that stands where a file is to be: it can't be replaced by one."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return
    if is_folder:
        remove(path)


def clear(path: Path) -> None:
    """See to it that nothing is there, as far as that can be done."""
    remove(path)


def _is_ours(path: Path) -> bool:
    """Return whether there is nothing, or a plain file that has no other name."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _open(path: Path, fits: Fits) -> tuple[int, int]:
    """Open a file; return a descriptor, and the size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise NotPlainFile(error.errno, "no plain file", str(path)) from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or not fits(found):
        os.close(descriptor)
        raise NotPlainFile(errno.EINVAL, "no plain file of its own", str(path))
    return descriptor, found.st_size


def _read(descriptor: int, start: int, length: int) -> bytes:
    parts = []
    while length > 0 and (part := os.pread(descriptor, min(length, _CHUNK_BYTES), start)):
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return b"".join(parts)
