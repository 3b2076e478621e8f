"""What the kernel offers and Python does not: death signals, subreapers, timers, namespaces, holes.

Files are read by descriptor here and next door: Python's own file objects would cost every keeper a
good part of its memory.
"""

from __future__ import annotations

import ctypes
import os
import time

from .lean import signal

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_TIMER_ABSTIME = 1
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_CHUNK = 16384
_CLOSE_ENOUGH = 0.001
NEW_PIDS, NEW_USERS, NEW_MOUNTS = 0x20000000, 0x10000000, 0x00020000
_SLAVE_ALL = 1 << 19 | 1 << 14
_NOTHING_SPECIAL = 2 | 4 | 8
"""Mounted without set-user-id programs, devices and programs."""


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * 64),
    )


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


def moment() -> float:
    """Time since boot, suspension included: the clock of leases."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def awake() -> float:
    """Time since boot without suspension: the clock of patience. What a task, or we, may take for
    something is not used up while the machine sleeps.
    """
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def slept() -> float:
    """How long this machine has been suspended since boot."""
    while True:  # others may have had their turn between two looks
        before, now = awake(), moment()
        if awake() - before < _CLOSE_ENOUGH:
            return now - before


def wall() -> float:
    """How far the wall clock is ahead of `moment`: steady, unless somebody sets the clock, as
    happens when a virtual machine that was paused goes on. In its pause the other clocks stand.
    """
    while True:
        before, now = moment(), time.clock_gettime(time.CLOCK_REALTIME)
        if moment() - before < _CLOSE_ENOUGH:
            return now - before


def contents(path: str, folder: int | None = None) -> bytes | None:
    """A whole file; None if it can't be read. Never waits, whatever was put in its place."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        found = b""
        while part := os.read(descriptor, _CHUNK):
            found += part
        return found
    except OSError:
        return None
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """Which boot this is: moments of another one mean nothing."""
    return (contents("/proc/sys/kernel/random/boot_id") or b"").decode("ascii").strip()


def set_name(name: str) -> None:
    """What `ps` and `top` show."""
    # Not by /proc/self/comm: a process that is not dumpable can't write there.
    _check(_libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "PR_SET_NAME")


def is_dumpable() -> bool:
    """Other processes of this user may read its memory and its environment."""
    return bool(_libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 1)


def set_dumpable(wanted: bool) -> None:
    """Let other processes of this user read the memory and the environment of this one, or not. A
    child inherits it until it becomes another program.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(wanted), 0, 0, 0), "PR_SET_DUMPABLE")


def write_once(path: str, text: str) -> bool:
    """Write to a file of the kernel's; False if it will not have it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(descriptor, text.encode()) > 0
    except OSError:
        return False
    finally:
        os.close(descriptor)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, even if that happened before this call."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")
    # Not getppid: in a namespace of its own a process can't name a parent outside.
    fields = (contents("/proc/self/stat") or b"").rpartition(b")")[2].split()
    if fields[1:2] != [b"%d" % parent]:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def unshare(what: int) -> None:
    """Leave namespaces that were shared with the parent; that of pids is left by children only."""
    _check(_libc.unshare(what), "unshare")


def mount_proc() -> bool:
    """Let /proc show this pid namespace, here and below; False if that may not be."""
    # First see to it that nobody outside will find it mounted.
    return bool(
        _libc.mount(b"none", b"/", None, _SLAVE_ALL, None) == 0
        and _libc.mount(b"proc", b"/proc", b"proc", _NOTHING_SPECIAL, None) == 0
    )


class Timer:
    """Has the kernel send this process a signal at a time of a clock."""

    def __init__(self, clock: int, number: int) -> None:
        event = _Event(None, number, 0, b"")
        self._timer = ctypes.c_void_p()
        self._setting = _Timer()
        self._at: float | None = None
        made = _libc.timer_create(clock, ctypes.byref(event), ctypes.byref(self._timer))
        _check(made, "timer_create")

    def set(self, at: float | None) -> None:
        """Fire then; None: never."""
        if at == self._at or (at and self._at and abs(at - self._at) < _CLOSE_ENOUGH):
            return
        value = self._setting.value
        if at is None:
            value.seconds = value.nanoseconds = 0
        else:
            # All zero disarms, so a moment long past must not look like it.
            value.seconds = max(0, int(at))
            value.nanoseconds = max(1, int(at % 1 * 1e9))
        setting = ctypes.byref(self._setting)
        _check(
            _libc.timer_settime(self._timer, _TIMER_ABSTIME, setting, None),
            "timer_settime",
        )
        self._at = at


class DeathTimer(Timer):
    """Kills this process at a time of `awake`: also if it is stopped or frozen then. Not by
    `moment`: a machine that wakes up would have its keepers killed before they can look.
    """

    def __init__(self) -> None:
        super().__init__(time.CLOCK_MONOTONIC, signal.SIGKILL)


class Alarm:
    """Wakes this process at a `moment`, though the machine slept past it; a second one, set a bit
    later, also continues a process that somebody had stopped before the machine fell asleep.
    """

    SIGNALS = (signal.SIGALRM, signal.SIGCONT)
    """What it sends: to be waited for."""

    def __init__(self) -> None:
        self._wake = Timer(time.CLOCK_BOOTTIME, signal.SIGALRM)
        self._continue = Timer(time.CLOCK_BOOTTIME, signal.SIGCONT)

    def set(self, wake: float | None, go_on: float | None = None) -> None:
        """At these moments; None: never."""
        self._wake.set(wake)
        self._continue.set(go_on)


def punch(descriptor: int, start: int, end: int) -> bool:
    """Give the disk space of a part of a file back; False if its file system can't."""
    offset, length = ctypes.c_int64(start), ctypes.c_int64(end - start)
    return bool(_libc.fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, offset, length) == 0)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
