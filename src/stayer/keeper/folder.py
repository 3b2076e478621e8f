"""The files that worker and keeper speak through: the run directory and the lease.

What each file holds is said in `docs/reference/run-directory.md`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

from .kernel import boot_id, contents, moment
from .lean import Content, dumps

_EXIT_SIZE = 16384
_WIDEST_MARGIN = 10.0
_ROUNDING = 0.1
_LOCK_ROUND = 0.005
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""What opening a link, a folder, a pipe or a socket says."""


class RunDirectory:
    """One attempt's folder, held by descriptor: whoever deletes it takes the task's life."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock: int | None = None
        found = os.fstat(self._descriptor)
        self._identity = found.st_dev, found.st_ino

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)

    def close(self) -> None:
        """Let go of it, of its lock too."""
        os.close(self._descriptor)
        if self._lock is not None:
            os.close(self._lock)

    def lock(self, patience: float = 0.0) -> bool:
        """Hold it until closed, or the end of this process; False if somebody does."""
        self._lock = self.open("lock", os.O_RDWR | os.O_CREAT)
        end = moment() + patience
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if moment() >= end:
                    return False
            time.sleep(_LOCK_ROUND)

    def read(self, name: str) -> bytes | None:
        return contents(name, self._descriptor)

    def write(self, name: str, content: Content) -> bool:
        """Replace a JSON file at once; False if the disk is full: that must not stop the keeper."""
        try:
            descriptor = self._open_own(name + ".tmp", os.O_TRUNC)
            try:
                data = dumps(content).encode()
                whole = os.write(descriptor, data) == len(data)
            finally:
                os.close(descriptor)
            if whole:
                self._rename(name)
        except OSError:
            return False
        return whole

    def exists(self, name: str) -> bool:
        return self.seen(name) is not None

    def seen(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._descriptor)
        except OSError:
            return None

    def is_there(self) -> bool:
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def allocate_exit(self) -> bool:
        """So that a full disk can't keep us from saying how it ended; False: done before."""
        try:
            descriptor = self.open("exit.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, _EXIT_SIZE)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
        finally:
            os.close(descriptor)
        return True

    def write_exit(self, content: Content) -> None:
        """How it ended; what it left is on the disk before anyone can read that it ended."""
        data = dumps(content).encode()
        descriptor = self._open_own("exit.tmp")
        try:
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if any([self._sync("result"), self._sync("checkpoint")]):
            os.fsync(self._descriptor)
        self._rename("exit")
        os.fsync(self._descriptor)

    def _open_own(self, name: str, how: int = 0) -> int:
        """A plain file to write to; whatever else the task has put there is moved out of the way,
        and never waited for.
        """
        how |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = self.open(name, how)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
        folder = self._descriptor
        os.rename(name, f"{name}.{moment()}", src_dir_fd=folder, dst_dir_fd=folder)
        return self.open(name, how | os.O_EXCL)

    def _rename(self, name: str) -> None:
        folder = self._descriptor
        os.rename(name + ".tmp", name, src_dir_fd=folder, dst_dir_fd=folder)

    def _sync(self, name: str) -> bool:
        """Bring a file to the disk, if there is one."""
        try:
            descriptor = self.open(name, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # not a file at all: a pipe, say
                raise
        finally:
            os.close(descriptor)
        return True


class Lease:
    """The worker's right to its tasks: its file says `BOOT_ID UNTIL LENGTH`, or `void`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._text: bytes | None = None
        self.boot = boot_id()
        self.until = self.since = 0.0
        self.margin = 0.0
        self.void = False
        self.read()

    def read(self) -> bool:
        """Look again; True if it says something new. A file that can't be read, or makes no sense,
        does not.
        """
        text = contents(self._path)
        # Twice the same, for it is written in place and may be met half written.
        while text != (again := contents(self._path)):
            text = again
        if not text or text == self._text:
            return False
        words = text.decode("ascii", "replace").split()
        if words[:1] == ["void"] or (len(words) == 3 and words[0] != self.boot):
            self.void = True
        elif len(words) == 3:
            self._believe(words[1], words[2])
        self._text = text
        return True

    def _believe(self, until: str, length: str) -> None:
        try:
            end, seconds = float(until), float(length)
        except ValueError:
            return
        # No honest moment is further away than a whole lease.
        if seconds > 0 and end <= moment() + seconds + _ROUNDING:
            self.until, self.since = end, end - seconds
            self.margin = min(_WIDEST_MARGIN, seconds / 6)

    @property
    def good(self) -> bool:
        """A task may run now."""
        return not self.void and moment() < self.fence_at

    @property
    def fence_at(self) -> float:
        """When the tree must begin to freeze."""
        return self.until - self.margin

    @property
    def freeze_by(self) -> float:
        """When a freeze that is not proven turns into a kill, while there is time to record it."""
        return self.until - self.margin * 0.7

    @property
    def kill_at(self) -> float:
        """When the kernel kills if the freeze is not proven."""
        return self.until - self.margin / 2

    @property
    def continue_at(self) -> float:
        """When the kernel continues whoever is stopped and was not killed: the machine slept."""
        return self.until - self.margin * 0.4
