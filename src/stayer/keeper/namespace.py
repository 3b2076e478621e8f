"""A pid namespace of the task's own: when its first process ends the kernel kills all others in it.

That first process is ours. It dies with the keeper, and no signal from inside can reach it.

    keeper ─ fork ─► scout      makes the namespaces, forks, and ends
                       └──────► first     now a child of the keeper: reaps, passes on the ending
                                  └─────► main      becomes the task
"""

from __future__ import annotations

import os
import select

from .kernel import (
    NEW_MOUNTS,
    NEW_PIDS,
    NEW_USERS,
    die_with_parent,
    mount_proc,
    set_name,
    unshare,
    write_once,
)

_HOW_TO = (
    "Let the kernel make pid namespaces (for an ordinary user: user.max_user_namespaces above 0, "
    "kernel.apparmor_restrict_unprivileged_userns = 0; in a container: CAP_SYS_ADMIN), or start "
    "the worker without isolate"
)


def descend(keeper: int, tell: int) -> None:
    """Called in a fresh child of the keeper; returns in the main process only.

    `tell` is the pipe for a line when the main process is there, and one with its wait status.
    """
    _divide()
    scout = os.pidfd_open(os.getpid())
    if os.fork() != 0:
        os._exit(0)
    select.select([scout], [], [])  # from here on the keeper is the parent
    die_with_parent(keeper)
    os.setsid()
    mount_proc()
    main = os.fork()
    if main != 0:
        _reap(main, tell)


def _divide() -> None:
    user, group = os.geteuid(), os.getegid()
    # Root needs no user namespace, and would be less than root in one.
    try:
        unshare(NEW_PIDS | NEW_MOUNTS | (NEW_USERS if user else 0))
    except OSError as error:
        raise OSError(f"isolate = 'pidns' is refused here: {error.strerror}. {_HOW_TO}") from error
    if user:
        write_once("/proc/self/setgroups", "deny")
        if not (
            write_once("/proc/self/gid_map", f"{group} {group} 1")
            and write_once("/proc/self/uid_map", f"{user} {user} 1")
        ):
            raise OSError(f"isolate = 'pidns': this user can't be mapped. {_HOW_TO}")


def _reap(main: int, tell: int) -> None:
    """The life of the first process: until nothing is left of the others."""
    set_name("stayer-first")
    os.dup2(tell, 0)
    os.closerange(1, os.sysconf("SC_OPEN_MAX"))  # an open pipe of these would look like a life
    os.write(0, b"\n")
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == main:
            os.write(0, b"%d\n" % status)
