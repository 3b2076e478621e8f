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

EXIT_SIZE = 16384
SMALL_RESULT = 2000
"""How many bytes of a result fit into `exit`, however JSON writes them."""
_WIDEST_MARGIN = 10.0
_ROUNDING = 0.1
_LOCK_ROUND = 0.005
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""What opening a link, a folder, a pipe or a socket says."""
_TASK = "task"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class RunDirectory:
    """One attempt's folder, held by descriptor: whoever deletes it takes the task's life.

    What lies in it is the keeper's and the worker's; `task` is the folder in it that the task has.
    """

    def __init__(self, path: str, above: int | None = None) -> None:
        """`above` is the folder that it must lie in, as a descriptor."""
        self.path = path
        if above is None:
            self._descriptor = os.open(path, _FOLDER)
        else:
            name = os.path.basename(path)
            self._descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        self._lock: int | None = None
        self._identity = _identity(os.fstat(self._descriptor))
        self.task = TaskFolder(self._descriptor)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)

    def close(self) -> None:
        """Let go of it, of its lock too."""
        self.task.close()
        os.close(self._descriptor)
        if self._lock is not None:
            os.close(self._lock)

    def is_ours(self) -> bool:
        """No other user owns it or may write to it."""
        found = os.fstat(self._descriptor)
        return found.st_uid == os.geteuid() and not found.st_mode & 0o022

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
        return _seen(name, self._descriptor) is not None

    def is_there(self) -> bool:
        """In its place, with the task's part."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return _identity(found) == self._identity and self.task.is_there()

    def allocate_exit(self) -> bool:
        """So that a full disk can't keep us from saying how it ended; False: done before."""
        try:
            descriptor = self.open("exit.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, EXIT_SIZE)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
        finally:
            os.close(descriptor)
        return True

    def write_exit(self, content: Content) -> None:
        """How it ended; what it left is on the disk before anyone can read that it ended. A small
        result is in there itself: that is one file to wait for, not two and a folder.
        """
        result = self.task.read_small("result")
        data = dumps(content if result is None else {**content, "result": result}).encode()
        descriptor = self._open_own("exit.tmp")
        try:
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.task.sync("checkpoint", *(("result",) if result is None else ()))
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


class TaskFolder:
    """The part of a run directory that the task has, where it may put anything in the place of
    anything. It may be another user's: then nothing is opened here but that user's own plain files.
    """

    def __init__(self, above: int) -> None:
        """`above` is the run directory; one of an older worker has no part for the task."""
        self._above = above
        try:
            self.descriptor = os.open(_TASK, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        except OSError:
            self.descriptor = os.dup(above)
        found, around = os.fstat(self.descriptor), os.fstat(above)
        self._identity = _identity(found)
        self._is_apart = self._identity != _identity(around)
        self._user, self._group = found.st_uid, found.st_gid
        self._is_foreign = found.st_uid != os.geteuid()

    def close(self) -> None:
        os.close(self.descriptor)

    def is_there(self) -> bool:
        if not self._is_apart:
            return True
        found = _seen(_TASK, self._above)
        return found is not None and _identity(found) == self._identity

    def seen(self, name: str) -> os.stat_result | None:
        return _seen(name, self.descriptor)

    def open(self, name: str, flags: int) -> int:
        """A plain file; OSError if it is something else, or if it is another user's."""
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags & ~os.O_CREAT, dir_fd=self.descriptor)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            return self._make(name, flags)
        found = os.fstat(descriptor)
        is_theirs = not self._is_foreign or (found.st_uid, found.st_nlink) == (self._user, 1)
        if stat.S_ISREG(found.st_mode) and is_theirs:
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EPERM, "no plain file of the task's own", name)

    def sync(self, *names: str) -> None:
        """Bring files to the disk, those that there are."""
        found = False
        for name in names:
            try:
                descriptor = self.open(name, os.O_RDONLY)
            except OSError:
                continue
            found = True
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if found:
            os.fsync(self.descriptor)

    def read_small(self, name: str) -> str | None:
        """Read a small file of text; None if it is none."""
        try:
            descriptor = self.open(name, os.O_RDONLY)
        except OSError:
            return None
        try:
            data = os.read(descriptor, SMALL_RESULT + 1)
            return data.decode() if len(data) <= SMALL_RESULT else None
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)

    def _make(self, name: str, flags: int) -> int:
        descriptor = os.open(name, flags | os.O_EXCL, 0o600, dir_fd=self.descriptor)
        if self._is_foreign:
            os.fchown(descriptor, self._user, self._group)
        return descriptor


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _seen(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


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
