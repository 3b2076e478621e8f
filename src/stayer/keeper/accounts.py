"""What the kernel has counted of a task that is over."""

from __future__ import annotations

import resource

from .kernel import contents


def spent(peak: float) -> dict[str, float]:
    """By all that this process has reaped; `peak` is the most memory that was seen in use."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = [line.partition(b": ") for line in (contents("/proc/self/io") or b"").splitlines()]
    moved = {name: int(value) for name, _, value in rows}
    return {
        "user": used.ru_utime,
        "system": used.ru_stime,
        "peak": max(peak, used.ru_maxrss * 1024),
        "read": moved.get(b"rchar", 0),
        "written": moved.get(b"wchar", 0),
    }


def oom_kills() -> int:
    """How often this machine has killed for want of memory since it began."""
    _, found, rest = (contents("/proc/vmstat") or b"").partition(b"\noom_kill ")
    return int(rest.split(None, 1)[0]) if found else 0
