"""Environments that are kept on this machine: each is built once, by whoever needs it first.

`ENVS/KEY` is an environment and `ENVS/KEY.lock` its lock. Whoever builds or removes it holds the
lock alone, whoever uses it shares it; the kernel lets go of it when the last process that has it is
gone. One that has the file `complete` in it is whole. A builder that stands still, because its
worker has lost its lease, keeps nobody waiting: others build `KEY.1`, and the first one that is
whole is used.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any

COMPLETE = "complete"
_LOCK = ".lock"
_SIGN_OF_LIFE_S = 1.0
_STANDS_STILL_S = 20.0
"""A builder touches its lock every second; after so long without that, it stands still."""
POLL_S = 0.05
_MOST_COPIES = 8


class Environment:
    """One that is whole, and stays so while its lock is held."""

    def __init__(self, path: str, lock: int, *, fresh: bool) -> None:
        self.path = path
        self.lock = lock
        self.fresh = fresh
        """It was built just now, by this process."""


class Lock:
    """The lock of a path, as the process has it open."""

    def __init__(self, path: str, *, create: bool = True) -> None:
        """Raises FileNotFoundError if there is none and none is to be made."""
        self._path = path + _LOCK
        how = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        self.descriptor = os.open(self._path, how, 0o600)
        self._touched = 0.0

    def take(self, how: int) -> bool:
        """Take it at once, or return False: also if its file was removed meanwhile."""
        try:
            fcntl.flock(self.descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if how & fcntl.LOCK_EX:  # whoever is kept waiting now sees that this is new
            os.utime(self.descriptor)
        return self.is_current()

    def is_current(self) -> bool:
        """Return whether nobody has removed its file, and with it the lock that others see."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self.descriptor))
        except FileNotFoundError:
            return False

    def show_life(self) -> None:
        """Let those who wait see that something goes on here."""
        if time.monotonic() >= self._touched + _SIGN_OF_LIFE_S:
            self._touched = time.monotonic()
            os.utime(self.descriptor)

    def stands_still(self) -> bool:
        """Return whether who builds has given no sign of life for long."""
        return time.time() > os.fstat(self.descriptor).st_mtime + _STANDS_STILL_S

    def remove(self) -> None:
        """Remove its file; it must be held alone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def close(self) -> None:
        os.close(self.descriptor)


def use(
    envs: str, key: str, build: Callable[[str, Lock], dict[str, object]], wait: Callable[[], None]
) -> Environment:
    """Return the environment of this key, with its lock shared. `build` fills a new folder and
    returns what is to be remembered of it; `wait` is called again and again while others build.
    """
    while True:
        os.makedirs(envs, mode=0o700, exist_ok=True)  # again: somebody may have deleted it
        for path in _copies(envs, key):
            lock = Lock(path)
            try:
                fresh = not is_complete(path)
                if fresh and lock.take(fcntl.LOCK_EX):
                    _build_or_begin_anew(path, lock, build)
                # To share it means to let go of it first: then it may be gone.
                if lock.take(fcntl.LOCK_SH) and is_complete(path):
                    return _used(path, lock, fresh=fresh)
                stands_still = lock.stands_still()
            except BaseException:
                lock.close()
                raise
            lock.close()
            if not stands_still:
                break
        wait()
        time.sleep(POLL_S)


def _copies(envs: str, key: str) -> Iterator[str]:
    """List where it may be: at its key, or beside it for when a builder stands still there."""
    places = copies(os.path.join(envs, key))
    whole = [path for path in places if is_complete(path)]
    yield from whole or places


def copies(path: str) -> list[str]:
    """List it, and the paths beside it for when somebody stands still who has its lock."""
    return [path, *(f"{path}.{number}" for number in range(1, _MOST_COPIES))]


def is_complete(path: str) -> bool:
    """Return whether it is whole. It is not if its Python was removed from the machine: then it is
    built again, with the one that is there now.
    """
    python = os.path.join(path, "venv", "bin", "python")
    is_dangling = os.path.islink(python) and not os.path.exists(python)
    return os.path.exists(os.path.join(path, COMPLETE)) and not is_dangling


def _used(path: str, lock: Lock, *, fresh: bool) -> Environment:
    with contextlib.suppress(OSError):  # a full disk, or one that can't be written to any more
        os.utime(os.path.join(path, COMPLETE))
    return Environment(path, lock.descriptor, fresh=fresh)


def _build_or_begin_anew(
    path: str, lock: Lock, build: Callable[[str, Lock], dict[str, object]]
) -> None:
    """Build it; what fails because somebody has deleted the cache meanwhile is no failure."""
    try:
        _build(path, lock, build)
    except Exception:
        if lock.is_current():
            raise


def _build(path: str, lock: Lock, build: Callable[[str, Lock], dict[str, object]]) -> None:
    if is_complete(path):
        return
    remove_tree(path)  # what a builder that died has left
    os.mkdir(path, 0o700)
    made = os.stat(path)
    try:
        about = build(path, lock)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_tree(path)
        raise
    about["size"] = _make_read_only(path)
    os.sync()  # the mark must not be on the disk before what it speaks of
    # Programs make folders again that somebody has deleted, and what was in them is missing.
    if not lock.is_current() or not os.path.samestat(made, os.stat(path)):
        raise FileNotFoundError(errno.ENOENT, "it was deleted while it was built", path)
    mark = os.path.join(path, COMPLETE)
    os.chmod(path, 0o700)
    with open(mark + ".new", "w") as file:
        json.dump(about, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(mark + ".new", mark)


def _make_read_only(path: str) -> int:
    """Take away the right to write; return how many bytes there are."""
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            found = os.lstat(os.path.join(folder, name))
            size += found.st_size
            if stat.S_ISREG(found.st_mode):
                os.chmod(os.path.join(folder, name), stat.S_IMODE(found.st_mode) & ~0o222)
        if folder != path:
            os.chmod(folder, stat.S_IMODE(os.lstat(folder).st_mode) & ~0o222)
    return size


def remove_tree(path: str) -> None:
    """Remove a folder in which nothing may be written."""
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def remove(path: str, *, only_leftovers: bool = False) -> bool:
    """Remove an environment that nobody uses; False if somebody does, or if it can't be removed.
    `only_leftovers`: also False if it has become whole meanwhile.
    """
    try:
        return _remove(path, only_leftovers)
    except OSError:  # such as files of another user's: what is kept besides is still in order
        return False


def _remove(path: str, only_leftovers: bool) -> bool:
    lock = Lock(path)
    try:
        if not lock.take(fcntl.LOCK_EX) or (only_leftovers and is_complete(path)):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, COMPLETE))
        remove_tree(path)
        lock.remove()
        return True
    finally:
        lock.close()


def remove_leftovers(folder: str) -> None:
    """Remove what was begun here and is not whole, and locks of what is gone. What somebody works
    on is locked, and stays.
    """
    with contextlib.suppress(FileNotFoundError):
        for name in sorted({name.removesuffix(_LOCK) for name in os.listdir(folder)}):
            path = os.path.join(folder, name)
            if not is_complete(path):
                remove(path, only_leftovers=True)


@contextlib.contextmanager
def scratch(folder: str) -> Iterator[tuple[str, Lock]]:
    """Make a new folder in this one, which is removed in the end; if this process is killed, later
    by `remove_leftovers`.
    """
    while True:
        path = os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}")
        lock = Lock(path)
        if lock.take(fcntl.LOCK_EX):
            break
        lock.close()  # removed as a leftover, before it was locked
    try:
        os.mkdir(path, 0o700)
        yield path, lock
    finally:
        with contextlib.suppress(OSError):
            remove_tree(path)
        lock.remove()
        lock.close()


class Kept:
    """An environment that is kept, as `ls` shows it."""

    def __init__(self, path: str, used: float, about: dict[str, Any]) -> None:
        self.path = path
        self.used = used
        """When it was last used, by the wall clock."""
        self.about = about

    @property
    def size(self) -> int:
        """Bytes of its files."""
        size = self.about.get("size")
        return size if isinstance(size, int) else 0

    def is_used(self) -> bool:
        """Return whether a task runs in it now."""
        try:
            lock = Lock(self.path, create=False)
        except FileNotFoundError:
            return False
        try:
            return not lock.take(fcntl.LOCK_EX)
        finally:
            lock.close()


def list_kept(envs: str) -> list[Kept]:
    """List all that are whole, those first that were used longest ago."""
    found = []
    try:
        names = os.listdir(envs)
    except FileNotFoundError:
        return []
    for name in names:
        mark = os.path.join(envs, name, COMPLETE)
        with contextlib.suppress(OSError, ValueError):
            with open(mark) as file:
                about = json.load(file)
            used = os.stat(mark).st_mtime
            found.append(Kept(os.path.join(envs, name), used, about))
    return sorted(found, key=lambda each: each.used)


def evict(envs: str, most_bytes: float, most_age: float) -> list[Kept]:
    """Remove what was not used for so long, and then what was used longest ago until no more than
    so many bytes are left; never what is in use. Return what was removed, without what builders
    that were killed have left, which goes too.
    """
    remove_leftovers(envs)
    removed = []
    found = list_kept(envs)
    size = sum(each.size for each in found)
    for each in found:
        is_old = time.time() - each.used > most_age
        if (is_old or size > most_bytes) and remove(each.path):
            size -= each.size
            removed.append(each)
    return removed
