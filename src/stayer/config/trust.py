"""Whose files are believed. A configuration says which programs run, a database which tasks: who
can write one of them can run what she likes, as the user who reads it.
"""

from __future__ import annotations

import os
import stat

ROOT = 0


def distrust(found: os.stat_result, *, user: int | None = None, owned: bool = True) -> str | None:
    """Why not to believe a file with this status, in words; None if nobody but the user (this
    process's, unless given) and root can write it. `owned` False: it may belong to anybody.
    """
    if os.name != "posix":
        return None
    user = os.geteuid() if user is None else user
    if owned and found.st_uid not in (user, ROOT):
        return f"it belongs to {user_name(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH:
        return "every user may write it"
    if found.st_mode & stat.S_IWGRP and not _is_nobody_elses(found.st_gid, found.st_uid):
        return f"{_group_name(found.st_gid)} may write it"
    return None


def distrust_path(path: str | os.PathLike[str]) -> str | None:
    """Say why a path is not to be trusted; a link must not be another's either."""
    link = os.lstat(path)
    if os.name == "posix" and stat.S_ISLNK(link.st_mode):
        if link.st_uid not in (os.geteuid(), ROOT):
            return f"it belongs to {user_name(link.st_uid)}"
        link = os.stat(path)
    return distrust(link)


def readers(found: os.stat_result) -> str | None:
    """Say who else can read a file with this status, in words; None: nobody but root."""
    if os.name != "posix":
        return None
    if found.st_mode & stat.S_IROTH:
        return "every user"
    if found.st_mode & stat.S_IRGRP and not _is_nobody_elses(found.st_gid, found.st_uid):
        return _group_name(found.st_gid)
    return None


def user_name(uid: int) -> str:
    """Return the name of a user, as people know it."""
    import pwd

    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _group_name(gid: int) -> str:
    import grp

    try:
        return f"the group {grp.getgrgid(gid).gr_name}"
    except KeyError:
        return f"group {gid}"


def _is_nobody_elses(gid: int, owner: int) -> bool:
    """Root's group, or the one that many systems make for each user, of the same name: there, what
    a user makes can be written by that group.
    """
    if gid == ROOT:
        return True
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(owner), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}
