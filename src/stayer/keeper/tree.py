"""A process and everything below it: listing, freezing, killing, measuring.

Whoever calls this is a subreaper, so all that its task ever started is below it; no process can
leave but by ending. "No child left to wait for" is therefore proof that nothing is left.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from .kernel import contents, moment

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_STILL = frozenset((b"T", b"t", b"Z", b"X", b"x"))
_IN_VFORK = (b"kernel_clone", b"_do_fork", b"do_fork", b"wait_for_vfork_done")

Stat = list[bytes]
"""The fields of /proc/PID/stat from the state on (index 0)."""

_STATE, _PARENT, _USER, _SYSTEM, _THREADS, _STARTED, _RESIDENT = 0, 1, 11, 12, 17, 19, 21


def stat(path: str) -> Stat | None:
    """Of `PID` or `PID/task/THREAD`; None if it is gone."""
    text = contents(f"/proc/{path}/stat")
    return text.rpartition(b")")[2].split() if text else None


def started(pid: int) -> int | None:
    """When it started, in ticks since boot: with the pid, its identity."""
    fields = stat(str(pid))
    return None if fields is None else int(fields[_STARTED])


def children(pid: int) -> list[int]:
    """Its children, of all its threads."""
    found: list[int] = []
    for thread in _threads(pid):
        found += map(int, (contents(f"/proc/{pid}/task/{thread}/children") or b"").split())
    return found


def below(root: int) -> list[tuple[int, Stat]]:
    """All descendants, parents before their children."""
    found = []
    waiting = [(pid, root) for pid in children(root)]
    while waiting:
        pid, parent = waiting.pop()
        fields = stat(str(pid))
        # One with another parent has moved up meanwhile, or has ended and its number is another's.
        if fields is not None and int(fields[_PARENT]) == parent:
            found.append((pid, fields))
            waiting += [(child, pid) for child in children(pid)]
    return found


def send(processes: Iterable[tuple[int, Stat]], number: int) -> None:
    """A signal to each of them that still lives."""
    for pid, fields in processes:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # The descriptor is of whoever had the number just now: make sure that it is the same.
            now = stat(str(pid))
            if now is not None and now[_STARTED] == fields[_STARTED]:
                signal.pidfd_send_signal(descriptor, number)
        except (ProcessLookupError, PermissionError):
            continue  # it ended; or it is another user's now
        finally:
            os.close(descriptor)


def freeze(root: int, deadline: float) -> bool:
    """Stop everything below. True: two walks in a row found all stopped and nothing new."""
    seen: list[int] | None = None
    while True:
        processes = below(root)
        moving = [process for process in processes if _moves(*process)]
        send(moving, signal.SIGSTOP)
        pids = sorted(pid for pid, _ in processes)
        if not moving and pids == seen:
            return True
        if moment() >= deadline:
            return False
        seen = None if moving else pids
        if moving:
            time.sleep(0.001)


def frozen(root: int) -> bool:
    """Nothing below moves."""
    return not any(_moves(*process) for process in below(root))


def thaw(root: int) -> None:
    """Let everything below go on, parents last, lest they meet a child that is still stopped."""
    send(reversed(below(root)), signal.SIGCONT)


def kill(root: int) -> None:
    """Kill everything below without waking it.

    Children first: the end of its parent would make the kernel continue a stopped process group.
    """
    send(reversed(below(root)), signal.SIGKILL)


def usage(root: int) -> dict[str, float]:
    """CPU seconds, resident bytes and number of what runs below now."""
    ticks = pages = number = 0
    for _, fields in below(root):
        if fields[_STATE] != b"Z":
            number += 1
            ticks += int(fields[_USER]) + int(fields[_SYSTEM])
            pages += int(fields[_RESIDENT])
    return {"cpu": ticks / _TICKS, "rss": pages * _PAGE, "processes": number}


def _moves(pid: int, fields: Stat) -> bool:
    """Some thread of it can run: the state in its own stat is only that of its first thread."""
    if int(fields[_THREADS]) <= 1:
        return fields[_STATE] not in _STILL and not _waits_in_vfork(pid, fields)
    for thread in _threads(pid):
        found = stat(f"{pid}/task/{thread}")
        if found and found[_STATE] not in _STILL and not _waits_in_vfork(pid, found, thread):
            return True
    return False


def _waits_in_vfork(pid: int, fields: Stat, thread: str = "") -> bool:
    """It is deaf to signals until its child, which is looked at itself, has become a program."""
    if fields[_STATE] != b"D":
        return False
    where = contents(f"/proc/{pid}/task/{thread or pid}/wchan")
    return where is not None and where.startswith(_IN_VFORK)


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:  # it ended while we looked
        return []
