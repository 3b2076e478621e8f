"""Removing folders in which a task may have put anything, and may still be putting it.

`shutil.rmtree` calls itself for each level, and a task can make more levels than that bears. Here
the folders in a folder are moved up to the top before it goes, so that nothing is ever more than
two levels down: no recursion, two descriptors, no long paths.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

logger = logging.getLogger("stayer.worker")

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROUNDS_LIMIT = 3
"""How often a folder is gone through to which somebody adds things meanwhile."""
_REMOVAL_TIMEOUT_S = 30.0
"""How long one removal may take: somebody may add folders faster than they go. What is
left of a run directory goes on at the next tidying."""


def remove(path: Path, steps: Iterator[int] | None = None) -> bool:
    """See to it that nothing is there, and follow no link; False, and logged, if something stays.
    Raises nothing: what a task left must not keep its worker from others. Each file and folder
    takes one of the `steps`; where these don't suffice, the answer is False.
    """
    steps = count() if steps is None else steps
    try:
        if _is_unlinked(str(path), None):
            return True
        top = _open(str(path), None)
        try:
            _FolderEmptier(top, steps).run()
        finally:
            os.close(top)
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except _NoStepsLeft:
        return False
    except (OSError, _RemovalTimeout) as error:
        logger.warning("%s can't be removed: %s", path, error)
        return False
    return True


class _RemovalTimeout(Exception):
    """Something else has to be done."""


class _NoStepsLeft(Exception):
    """As much was removed as may be."""


class _FolderEmptier:
    """Of one folder, by its descriptor."""

    def __init__(self, top: int, steps: Iterator[int]) -> None:
        self._top = top
        self._steps = steps
        self._move_prefix = f".{secrets.token_hex(8)}."
        self._count = 0
        self._until = time.monotonic() + _REMOVAL_TIMEOUT_S
        self._trouble: OSError | None = None

    def run(self) -> None:
        """Raise what kept it from being emptied."""
        for _ in range(_ROUNDS_LIMIT):
            self._trouble = None
            left = os.listdir(self._top)
            while left:
                left += self._take_apart(left.pop())
            if not os.listdir(self._top):
                return
        raise self._trouble or OSError(errno.ENOTEMPTY, "somebody goes on adding to it")

    def _take_apart(self, name: str) -> list[str]:
        """Remove what is in the top by this name; the names of the folders in it, moved there."""
        names: list[str] = []
        try:
            if self._is_file(name, self._top):
                return names
            folder = _open(name, self._top)
            try:
                for each in os.listdir(folder):
                    if not self._is_file(each, folder):
                        names += self._move_up(each, folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=self._top)
        except FileNotFoundError:
            pass  # somebody else was faster
        except OSError as error:
            self._trouble = self._trouble or error
        return names

    def _is_file(self, name: str, folder: int) -> bool:
        """Return whether it was none of the folders, and is gone, or has to stay."""
        if next(self._steps, None) is None:
            raise _NoStepsLeft
        if time.monotonic() > self._until:
            raise _RemovalTimeout("it takes too long: the rest is for later")
        try:
            return _is_unlinked(name, folder)
        except OSError as error:
            self._trouble = self._trouble or error
            return True

    def _move_up(self, name: str, folder: int) -> list[str]:
        self._count += 1
        new = f"{self._move_prefix}{self._count}"
        try:
            try:
                os.rename(name, new, src_dir_fd=folder, dst_dir_fd=self._top)
            except PermissionError:
                _unclose(name, folder)
                os.rename(name, new, src_dir_fd=folder, dst_dir_fd=self._top)
        except OSError as error:
            self._trouble = self._trouble or error
            return []
        return [new]


def _is_unlinked(name: str, folder: int | None) -> bool:
    """Unlink it; True if it was no folder, and is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
        return False
    return True


def _open(name: str, folder: int | None) -> int:
    """Open a folder, ours alone from now on: whose it was can't add to it any more."""
    try:
        descriptor = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=folder)
    except PermissionError:
        _unclose(name, folder)
        descriptor = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=folder)
    with suppress(OSError):
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o700)
    return descriptor


def _unclose(name: str, folder: int | None) -> None:
    """Open a folder that its owner, who we are, has closed; root needs no leave. By its name: what
    else that may mean by now is ours too.
    """
    if os.geteuid() == 0:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    os.chmod(name, 0o700, dir_fd=folder)
