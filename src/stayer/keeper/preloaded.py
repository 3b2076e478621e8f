"""The birth of a task that a zygote forks: a process that has imported the task's code already.

Its processes are no children of the keeper. So the zygote forks twice: a first process, which is
the subreaper of the task and passes on how it ended, and the main one below it.

    nursery ─► keeper  ─ ─ holds ─ ─┐
       └─────► zygote ─ fork ─► first ─ fork ─► main     the task

What holds of them by kinship elsewhere is seen to otherwise: both die when the keeper does, by
pipes that it alone holds; "nothing is left" is what the first process says when it has no child any
more. One that ends without saying so leaves its orphans to the nursery, which kills them; the
keeper then ends in vain, and the nursery speaks for it.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_DONTWAIT,
    SCM_RIGHTS,
    SO_PASSCRED,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
    socketpair,
)

from . import tree
from .cgroup import Cgroup
from .folder import RunDirectory
from .kernel import awake
from .lean import Content, dumps, signal
from .spawn import LONGEST_WAIT, Lost, NoZygote, open_input, read_complaint

_LONGEST_MESSAGE = 200
_CREDENTIALS = 12
"""A pid, a user and a group, 4 bytes each, as the kernel vouches for them."""


class PreloadedBirth:
    """As `spawn.Birth`, but for a process that is no child of the keeper."""

    def __init__(
        self, folder: RunDirectory, spec: Content, cgroup: Cgroup | None, log: int, zygote: socket
    ) -> None:
        user: Content = spec.get("user") or {}
        self._user = user.get("uid", os.geteuid())
        self._talk, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        self._talk.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
        self._gate = os.pipe()
        self._complaints, complain = os.pipe()
        about, given = _spec_file(folder, spec), open_input(folder)
        if user:
            os.fchown(log, user["uid"], user["gid"])
        theirs_too = (theirs.fileno(), self._gate[0], complain, given, log, about)
        self.status: int | None = None
        self.reaped: tuple[float, float, int, int, int] | None = None
        """By the first process: CPU seconds in its code and in the kernel's, the largest size, and
        bytes read and written; known when all is over."""
        try:
            self._ask(zygote, theirs_too)
            for each in (theirs.detach(), self._gate[0], complain, given, about):
                os.close(each)
            self.first, self.pid = self._meet()
        except OSError as error:
            self._close()
            raise NoZygote(f"{error}") from error
        os.close(log)
        self._life_lines = (_life_line(self.first), _life_line(-self.pid))
        fcntl.fcntl(self._talk.fileno(), fcntl.F_SETOWN, os.getpid())
        how = os.O_NONBLOCK | os.O_ASYNC
        fcntl.fcntl(self._talk.fileno(), fcntl.F_SETFL, os.O_RDWR | how)
        self._identity = tree.started(self.first)
        if cgroup is not None:
            cgroup.take(self.pid)

    def begin(self) -> None:
        """Let it begin with the task."""
        try:
            os.write(self._gate[1], b".")
        except BrokenPipeError:
            raise Lost from None
        os.close(self._gate[1])
        select.select([self._complaints], [], [], LONGEST_WAIT)
        os.set_blocking(self._complaints, False)

    def failure(self) -> str | None:
        """Why it never began, if it did not."""
        return read_complaint(self._complaints)

    def ending(self, reaped: int, status: int) -> int | None:
        """Of children, which it is none of."""
        return None

    def is_over(self) -> bool:
        """Nothing is left, by the word of the first process; Lost, if it can't say so any more."""
        while self.reaped is None:
            try:
                said = self._talk.recv(_LONGEST_MESSAGE)
            except BlockingIOError:
                self._wake_first()
                return False
            except OSError:
                said = b""
            word, *values = said.split()
            if word == b"ended":
                self.status = int(values[0])
            elif word == b"done":
                user, system, *others = values
                largest, read, written = map(int, others)
                self.reaped = float(user), float(system), largest, read, written
            else:
                raise Lost
        return True

    def _wake_first(self) -> None:
        """Somebody may have stopped it, which must not keep us waiting for its word."""
        fields = tree.stat(str(self.first))
        if fields is not None and fields[tree.STATE] in (b"T", b"t"):
            tree.send([(self.first, fields)], signal.SIGCONT)

    def _ask(self, zygote: socket, descriptors: tuple[int, ...]) -> None:
        rights = b"".join(each.to_bytes(4, sys.byteorder) for each in descriptors)
        zygote.sendmsg([b"fork"], [(SOL_SOCKET, SCM_RIGHTS, rights)], MSG_DONTWAIT)

    def _meet(self) -> tuple[int, int]:
        """The pids of both, as the kernel has them."""
        until = awake() + LONGEST_WAIT
        found = {}
        for _ in range(2):
            ready, _, _ = select.select([self._talk.fileno()], [], [], max(0.0, until - awake()))
            if not ready:
                raise OSError("it does not answer")
            word, about, _, _ = self._talk.recvmsg(_LONGEST_MESSAGE, CMSG_SPACE(_CREDENTIALS))
            if not word:
                raise OSError("it refuses")
            vouched = about[0][2] if about else b""
            pid, user = (int.from_bytes(vouched[at : at + 4], sys.byteorder) for at in (0, 4))
            if user != self._user:
                raise OSError("another user answers")
            found[word] = pid
        if set(found) != {b"first", b"main"} or tree.children(found[b"first"]) != [found[b"main"]]:
            raise OSError("it makes no sense")
        return found[b"first"], found[b"main"]

    def _close(self) -> None:
        """What it may still fork finds nobody, and ends."""
        self._talk.close()
        for each in (self._gate[1], self._complaints):
            os.close(each)


def _life_line(owner: int) -> tuple[int, int]:
    """A pipe that is ours alone: when it ends, as it does with us, the kernel kills the owner."""
    ends = os.pipe()
    for end in ends:  # either may go first
        fcntl.fcntl(end, fcntl.F_SETOWN, owner)
        fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)
    return ends


def _spec_file(folder: RunDirectory, spec: Content) -> int:
    """What the main process has to know: too much for a message."""
    made = os.memfd_create("stayer")
    text = {"cwd": spec.get("cwd") or folder.path, "env": spec["env"], "nice": spec.get("nice")}
    with open(made, "wb", closefd=False) as file:
        file.write(dumps(text).encode())
    return made
