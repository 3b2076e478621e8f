"""A cgroup (version 2) of the task's own, where the node lets us have one.

It stops, continues and kills all that is in it at once. The keeper itself stays outside. What the
task moves to another cgroup is still found by walking its tree.
"""

from __future__ import annotations

import os
import time

from .kernel import awake, contents, write_once

_FREEZE_ROUND = 0.001
_REMOVE_ROUND = 0.01
_REMOVE_PATIENCE = 1.0
_LONGEST_NAME = 200


class Cgroup:
    """One below `parent`; OSError if it can't be had."""

    def __init__(self, parent: str, name: str) -> None:
        self.path = os.path.join(parent, name[:_LONGEST_NAME])
        self._inside: bytes | None = None
        try:
            os.mkdir(self.path)
        except FileExistsError:  # left behind by one that had our number, and empty
            os.rmdir(self.path)
            os.mkdir(self.path)
        if not os.path.exists(os.path.join(self.path, "cgroup.freeze")):
            os.rmdir(self.path)
            raise OSError(f"{parent} is no cgroup, or one that can't be frozen")

    def take(self, pid: int) -> bool:
        """Put a process into it, and with it all that it will start; False if refused."""
        if not self._write("cgroup.procs", str(pid)):
            return False
        self._inside = _cgroup_of(pid)
        return True

    @property
    def in_use(self) -> bool:
        return self._inside is not None

    def holds(self, pid: int) -> bool:
        """It is in here, or in one below."""
        found = _cgroup_of(pid)
        return found is not None and (found + b"/").startswith((self._inside or b"") + b"/")

    def freeze(self, deadline: float) -> bool:
        """Stop all that is in it; True: the kernel says that nothing moves."""
        self._write("cgroup.freeze", "1")
        while not self.frozen():
            if awake() >= deadline:
                return False
            time.sleep(_FREEZE_ROUND)
        return True

    def frozen(self) -> bool:
        return b"frozen 1" in self._lines("cgroup.events")

    def thaw(self) -> None:
        self._write("cgroup.freeze", "0")

    def kill(self) -> None:
        """Kill all that is in it, at once and without waking it."""
        self._write("cgroup.kill", "1")

    def limit_memory(self, size: float | None) -> None:
        """By the kernel, if it counts memory here."""
        self._write("memory.max", str(int(size)) if size else "max")

    def cpu(self) -> tuple[float, float]:
        """Seconds, in the task's code and in the kernel's for it."""
        found = self._numbers("cpu.stat")
        return found.get(b"user_usec", 0) / 1e6, found.get(b"system_usec", 0) / 1e6

    def resident(self) -> int | None:
        """Memory that processes here have in use, what they share counted once; None: unknown."""
        found = self._numbers("memory.stat")
        return found[b"anon"] + found[b"file_mapped"] if b"file_mapped" in found else None

    def oom_kills(self) -> int | None:
        """How often the kernel has killed here for want of memory; None: it does not count."""
        return self._numbers("memory.events").get(b"oom_kill")

    def remove(self) -> None:
        """Once nothing is in it. What stands in the way is left: the next worker will not mind."""
        end = awake() + _REMOVE_PATIENCE
        while not _removed(self.path) and awake() < end:
            time.sleep(_REMOVE_ROUND)

    def _write(self, name: str, text: str) -> bool:
        return write_once(os.path.join(self.path, name), text)

    def _lines(self, name: str) -> list[bytes]:
        return (contents(os.path.join(self.path, name)) or b"").splitlines()

    def _numbers(self, name: str) -> dict[bytes, int]:
        rows = (line.partition(b" ") for line in self._lines(name))
        return {word: int(number) for word, _, number in rows}


def make(parent: str | None, name: str, memory: float | None) -> Cgroup | None:
    """Where it can be had; all goes on without."""
    if not parent:
        return None
    try:
        made = Cgroup(parent, name)
    except OSError:
        return None
    made.limit_memory(memory)
    return made


def end(path: str) -> None:
    """Kill what a dead keeper has left in its cgroup, and remove it."""
    write_once(os.path.join(path, "cgroup.kill"), "1")
    _removed(path)


def delegated() -> str | None:
    """A cgroup that this process may make others in, for its tasks; None if there is none.

    Its own, unless that is a leaf made for it in a tree that was delegated: then the top of that
    tree, where the kernel can count memory, since it counts none below a cgroup that has processes.
    """
    top, own = _own()
    if own is None:
        return None
    above = os.path.dirname(own)
    for folder in ([above] if above.startswith(top) and _is_top(above) else []) + [own]:
        if _can_have_children(folder):
            if b"memory" in (contents(f"{folder}/cgroup.controllers") or b"").split():
                write_once(f"{folder}/cgroup.subtree_control", "+memory")
            return folder
    return None


def _own() -> tuple[str, str | None]:
    """Where cgroups of version 2 are mounted, and the folder of ours there."""
    own = _cgroup_of(os.getpid())
    for line in (contents("/proc/self/mountinfo") or b"").decode().splitlines():
        fields, _, kind = line.partition(" - ")
        if own is not None and kind.startswith("cgroup2 "):
            root, top = fields.split()[3:5]
            inside = os.path.relpath(own.decode() or "/", root)
            if not inside.startswith(".."):
                return top, os.path.normpath(os.path.join(top, inside))
    return "", None


def _is_top(folder: str) -> bool:
    """The uppermost that was given to us: marked by systemd, or the last that this user owns."""
    for mark in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, mark) == b"1":
                return True
        except OSError:
            continue
    user = os.geteuid()
    try:
        return user != 0 and os.stat(folder).st_uid == user != os.stat(f"{folder}/..").st_uid
    except OSError:
        return False


def _can_have_children(folder: str) -> bool:
    trial = os.path.join(folder, f"stayer-trial-{os.getpid()}")
    try:
        os.mkdir(trial)
    except OSError:
        return False
    usable = os.path.exists(f"{trial}/cgroup.freeze") and os.access(
        f"{folder}/cgroup.procs", os.W_OK
    )
    os.rmdir(trial)
    return usable


def _cgroup_of(pid: int) -> bytes | None:
    for line in (contents(f"/proc/{pid}/cgroup") or b"").splitlines():
        if line.startswith(b"0::"):
            return line[3:].rstrip(b"/")
    return None


def _removed(path: str) -> bool:
    """With those below, which the task may have made."""
    try:
        for name in os.listdir(path):
            below = os.path.join(path, name)
            if os.path.isdir(below):
                _removed(below)
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
