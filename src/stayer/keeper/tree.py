"""A process and everything below it: listing, freezing, killing, measuring.

Whoever calls this is a subreaper, so all that its task ever started is below it; no process can
leave but by ending. "No child left to wait for" is therefore proof that nothing is left.
"""

from __future__ import annotations

import os
import time

from .kernel import awake, contents
from .lean import TYPE_CHECKING, signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Spare = Callable[[int], bool] | None
    """Says of which processes something else makes sure that they stand still."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_STILL = frozenset((b"T", b"t", b"Z", b"X", b"x"))
_ENDED = frozenset((b"Z", b"X", b"x"))
_IN_VFORK = (b"kernel_clone", b"_do_fork", b"do_fork", b"wait_for_vfork_done")

Stat = list[bytes]
"""The fields of /proc/PID/stat from the state on (index 0)."""

STATE, _PARENT, _THREADS, _STARTED, _RESIDENT = 0, 1, 17, 19, 21
_TIMES = slice(11, 15)
"""In its code and in the kernel's, then both of the children that it has reaped."""


def stat(path: str) -> Stat | None:
    """Of `PID` or `PID/task/THREAD`; None if it is gone."""
    text = contents(f"/proc/{path}/stat")
    return text.rpartition(b")")[2].split() if text else None


def started(pid: int) -> int | None:
    """When it started, in ticks since boot: with the pid, its identity."""
    fields = stat(str(pid))
    return None if fields is None else int(fields[_STARTED])


def lives(pid: int, since: int) -> bool:
    """The process of this number that started then has not ended."""
    fields = stat(str(pid))
    return fields is not None and int(fields[_STARTED]) == since and fields[STATE] not in _ENDED


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


def freeze(root: int, deadline: float, spare: Spare = None) -> bool:
    """Stop everything below, by this time of `awake`. True: two walks in a row found all stopped
    and nothing new.
    """
    seen: list[int] | None = None
    while True:
        processes = below(root)
        moving = _moving(processes, spare)
        send(moving, signal.SIGSTOP)
        pids = sorted(pid for pid, _ in processes)
        if not moving and pids == seen:
            return True
        if awake() >= deadline:
            return False
        seen = None if moving else pids
        if moving:
            time.sleep(0.001)


def frozen(root: int, spare: Spare = None) -> bool:
    """Nothing below moves."""
    return not _moving(below(root), spare)


def thaw(root: int, spare: Spare = None) -> None:
    """Let everything below go on, parents last, lest they meet a child that is still stopped."""
    stopped = [process for process in below(root) if not (spare and spare(process[0]))]
    send(reversed(stopped), signal.SIGCONT)


def kill(root: int) -> None:
    """Kill everything below without waking it.

    Children first: the end of its parent would make the kernel continue a stopped process group.
    """
    send(reversed(below(root)), signal.SIGKILL)


def cpu(fields: Stat) -> float:
    """Seconds, those of the children that it has reaped too."""
    return sum(map(int, fields[_TIMES])) / _TICKS


def resident(fields: Stat) -> int:
    """Bytes of memory."""
    return int(fields[_RESIDENT]) * _PAGE


def _moving(processes: list[tuple[int, Stat]], spare: Spare) -> list[tuple[int, Stat]]:
    return [
        (pid, fields)
        for pid, fields in processes
        if _moves(pid, fields) and not (spare and spare(pid))
    ]


def _moves(pid: int, fields: Stat) -> bool:
    """Some thread of it can run: the state in its own stat is only that of its first thread."""
    if int(fields[_THREADS]) <= 1:
        return fields[STATE] not in _STILL and not _waits_in_vfork(pid, fields)
    for thread in _threads(pid):
        found = stat(f"{pid}/task/{thread}")
        if found and found[STATE] not in _STILL and not _waits_in_vfork(pid, found, thread):
            return True
    return False


def _waits_in_vfork(pid: int, fields: Stat, thread: str = "") -> bool:
    """It is deaf to signals until its child, which is looked at itself, has become a program."""
    if fields[STATE] != b"D":
        return False
    where = contents(f"/proc/{pid}/task/{thread or pid}/wchan")
    return where is not None and where.startswith(_IN_VFORK)


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:  # it ended while we looked
        return []
