"""What a task uses, and has used.

Counters are those of all processes that the task ever had. Whoever ends leaves his in the process
that reaps him, up to the keeper; so they are the sums over all that live, with what each has
reaped, plus what the keeper has. Only children of a process that ignores SIGCHLD are lost, and even
then no counter goes back.
"""

from __future__ import annotations

import os
import resource

from . import tree
from .cgroup import Cgroup
from .kernel import contents, is_dumpable, set_dumpable

_LONGEST = 4096
_PROC = "/proc/self"
_HOW = os.O_RDONLY | os.O_CLOEXEC
_counters: dict[int, tuple[int, ...]] = {}
"""Of this process, by its pid: after a fork those of the parent are found here."""


class Accounts:
    """Of the task of this keeper; `first` is the process of ours among them, if there is one;
    `root` the one that they are below, if that is not the keeper.
    """

    def __init__(self, first: int | None, cgroup: Cgroup | None, root: int | None = None) -> None:
        self._first = first
        self._cgroup = cgroup
        self._root = root
        self._top = root or os.getpid()
        self.reaped: tuple[float, float, int, int, int] | None = None
        """What the root says that it has reaped."""
        self.usage: dict[str, float] = {
            "cpu": 0.0, "rss": 0, "peak": 0, "read": 0, "written": 0, "processes": 0
        }  # fmt: skip

    def sample(self) -> dict[str, float]:
        """What is used now."""
        rss = processes = 0
        user, system = _reaped_cpu()
        cpu = user + system
        read, written = _reaped_bytes()
        if self._root and (top := tree.stat(str(self._root))):
            cpu += tree.cpu(top)
        for pid, fields in tree.below(self._top):
            cpu += tree.cpu(fields)
            more_read, more_written = _moved(contents(f"/proc/{pid}/io"))
            read, written = read + more_read, written + more_written
            if pid != self._first and fields[tree.STATE] != b"Z":
                processes += 1
                rss += tree.resident(fields)
        if self._cgroup is not None:
            cpu = max(cpu, sum(self._cgroup.cpu()))
            rss = self._cgroup.resident() or rss
        return self._take(cpu, rss, rss, read, written, processes)

    def final(self) -> dict[str, float]:
        """When nothing is left: the same, and where the time went."""
        user, system, largest, read, written = self.reaped or reaped()
        if self._cgroup is not None:
            user, system = max((user, system), self._cgroup.cpu(), key=sum)
        usage = self._take(user + system, 0, largest, read, written, 0)
        return {**usage, "user": user, "system": system}

    def _take(
        self, cpu: float, rss: int, peak: int, read: int, written: int, processes: int
    ) -> dict[str, float]:
        before = self.usage
        self.usage = {
            "cpu": max(cpu, before["cpu"]),
            "rss": rss,
            "peak": max(peak, before["peak"]),
            "read": max(read, before["read"]),
            "written": max(written, before["written"]),
            "processes": processes,
        }
        return self.usage


class OutOfMemory:
    """Whether the machine has killed for want of memory just now: not at some time in the days that
    a task may run. One kill may come with a look, so it counts from the look before.
    """

    def __init__(self) -> None:
        self._before = self._last = oom_kills()

    def look(self) -> None:
        self._before, self._last = self._last, oom_kills()

    def lately(self) -> bool:
        return oom_kills() > self._before


def oom_kills() -> int:
    """How often this machine has killed for want of memory since it began."""
    _, found, rest = (contents("/proc/vmstat") or b"").partition(b"\noom_kill ")
    return int(rest.split(None, 1)[0]) if found else 0


def reaped() -> tuple[float, float, int, int, int]:
    """Of all that this process has reaped: CPU seconds in its code and in the kernel's, the size of
    the largest, bytes read and written.
    """
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return *_reaped_cpu(), largest, *_reaped_bytes()


def _reaped_cpu() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def _reaped_bytes() -> tuple[int, int]:
    """Read and written by all that this process has reaped: what it says, less its own."""
    counters = _own_counters()
    if not counters:
        return 0, 0
    whole, main = counters
    with_all = os.pread(whole, _LONGEST, 0)
    read, written = _moved(with_all)
    own_read, own_written = _moved(os.pread(main, _LONGEST, 0))
    # Since the first was written we have read it ourselves.
    return read - own_read + len(with_all), written - own_written


def _own_counters() -> tuple[int, ...]:
    """The files with those of this process and those of its thread, open: a process that is not
    dumpable may read them, but not open them. None, where the kernel does not count.
    """
    me = os.getpid()
    if me not in _counters:
        for inherited in [each for pair in _counters.values() for each in pair]:
            os.close(inherited)
        _counters.clear()
        before = is_dumpable()
        set_dumpable(True)
        try:
            names = f"{_PROC}/io", f"{_PROC}/task/{me}/io"
            if os.path.exists(names[0]) and os.path.exists(names[1]):
                _counters[me] = tuple(os.open(name, _HOW) for name in names)
            else:
                _counters[me] = ()
        finally:
            set_dumpable(before)
    return _counters[me]


def _moved(text: bytes | None) -> tuple[int, int]:
    """The bytes that all its system calls have read and written, wherever that was."""
    lines = (text or b"rchar: 0\nwchar: 0").splitlines()
    return int(lines[0][7:]), int(lines[1][7:])
