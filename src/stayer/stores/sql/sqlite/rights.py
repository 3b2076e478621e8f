"""Who may read and write the files of a store: its owner, unless somebody wants it otherwise.

SQLite gives the files that it makes beside a database (its log, and the index of that) the owner
and the mode of the database; so it is enough to make that in time.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Literal, TypeAlias

from stayer.config.trust import distrust
from stayer.core.errors import StoreUnusable

Shared: TypeAlias = Literal["no", "group", "all"]
"""Whom a database may belong to and be written by: its user, the group of the file too, or all."""
SHARED: tuple[Shared, ...] = ("no", "group", "all")
_BESIDE = ("", "-wal", "-shm", "-journal", "-lock")


def make(path: str) -> None:
    """Make the file if it is not there, for its owner alone, whatever the umask is."""
    with suppress(OSError):  # it is there; or SQLite says in its own words why it can't be
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)


def make_lock(path: str, database: str) -> int:
    """Open the file of the writers' lock; made anew, it is for those who may write the database."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    with suppress(OSError):
        like = os.stat(database)
        if os.geteuid() == 0:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, like.st_mode & 0o666)
    return descriptor


def check(path: str, shared: Shared) -> None:
    """StoreUnusable if others can write the database, or what SQLite reads beside it: they could
    run what they like as this user.
    """
    if shared == "all":
        return
    real = os.path.realpath(path)  # SQLite's own files are beside what a link leads to
    for file in dict.fromkeys((*(real + end for end in _BESIDE), path + "-lock")):
        try:
            found = os.stat(file)
        except OSError:
            continue
        why_not = _distrust(found, shared)
        if why_not is not None:
            wanted = "all" if found.st_mode & stat.S_IWOTH else "group"
            raise StoreUnusable(
                f"{file} is not used: {why_not}. Who can write it decides what runs here. Make it "
                f"yours alone (chown, chmod 600), or add ?shared={wanted} to the URL of the store "
                "if you share it on purpose"
            )


def _distrust(found: os.stat_result, shared: Shared) -> str | None:
    if shared == "group":
        return "every user may write it" if found.st_mode & stat.S_IWOTH else None
    return distrust(found)


def as_shared(text: str) -> Shared | None:
    """What a URL says, if it is one of them."""
    return text if text in SHARED else None
