"""The nursery's side of `--preload`: processes that have imported code of users, and fork tasks.

`preload.json` in the state directory names them. They are the users' own processes, and none of the
nursery's memory is in them: what they import can harm nobody but the tasks that are forked there.
"""

from __future__ import annotations

import fcntl
import os
from _socket import AF_UNIX, SOCK_SEQPACKET, socket, socketpair

from . import tree
from .kernel import contents, die_with_parent, moment, set_dumpable
from .lean import Content, loads, signal

_FILE = "preload.json"
_PLACE = 3
"""The descriptor that a zygote is asked through."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Zygote:
    """One of them, alive or to be started again."""

    def __init__(self, about: Content) -> None:
        self.about = about
        self.pid = 0
        self.talk: socket | None = None
        self.is_ready = False
        self.due = 0.0
        self.pause = _FIRST_PAUSE


class Zygotes:
    """All of them, by the names that `preload.json` gives them."""

    def __init__(self) -> None:
        self._all: dict[str, Zygote] = {}

    def load(self) -> None:
        """End those that there are, and start what the file names."""
        self.end()
        try:
            wanted = loads(contents(_FILE) or b"{}")
        except ValueError:
            wanted = {}
        for name, about in wanted.items():
            self._all[name] = Zygote(about)
        self.look()

    def end(self) -> None:
        """End all; what they have forked runs on."""
        for zygote in self._all.values():
            if zygote.pid:
                os.kill(zygote.pid, signal.SIGKILL)  # our child, and not reaped yet
                _forget(zygote)
        self._all = {}

    def look(self) -> float:
        """Start what is due, and hear which of them are ready; how long until the next is due."""
        rest = _LONGEST_PAUSE
        for zygote in self._all.values():
            if not zygote.pid and moment() >= zygote.due:
                _start(zygote)
            if not zygote.pid:
                rest = min(rest, max(0.0, zygote.due - moment()))
            elif zygote.talk is not None and not zygote.is_ready:
                zygote.is_ready = _hears(zygote.talk)
                if zygote.is_ready:
                    zygote.pause = _FIRST_PAUSE
        return rest

    def ended(self, pid: int, status: int) -> None:
        """A child of the nursery has ended. One that ended well has seen new code, and wants to
        import it; any other waits before the next try, longer each time.
        """
        for zygote in self._all.values():
            if zygote.pid == pid:
                _forget(zygote)
                if status:
                    zygote.due = moment() + zygote.pause
                    zygote.pause = min(_LONGEST_PAUSE, 2 * zygote.pause)

    def holds(self, pid: int) -> bool:
        """Whether it is one of them."""
        return any(zygote.pid == pid for zygote in self._all.values())

    def ready(self, name: str | None) -> socket | None:
        """The way to ask this one, if it can fork now; in a keeper, all others are let go."""
        zygote = self._all.pop(name or "", None)
        for other in self._all.values():
            if other.talk is not None:
                other.talk.close()
        if zygote is None or zygote.talk is None:
            return None
        fields = tree.stat(str(zygote.pid))
        # Stopped by somebody, it would keep us waiting.
        if zygote.is_ready and fields is not None and fields[tree.STATE] not in (b"T", b"t"):
            return zygote.talk
        zygote.talk.close()
        return None


def _forget(zygote: Zygote) -> None:
    if zygote.talk is not None:
        zygote.talk.close()
    zygote.pid, zygote.talk, zygote.is_ready = 0, None, False


def _hears(talk: socket) -> bool:
    try:
        return talk.recv(16) == b"ready"
    except OSError:
        return False


def _start(zygote: Zygote) -> None:
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    nursery = os.getpid()
    try:
        zygote.pid = os.fork()
    except OSError:
        zygote.due = moment() + _LONGEST_PAUSE
        return
    if zygote.pid == 0:
        try:
            _become_zygote(zygote.about, theirs.fileno(), nursery)
        finally:
            os._exit(127)
    theirs.close()
    fcntl.fcntl(ours.fileno(), fcntl.F_SETOWN, nursery)
    fcntl.fcntl(ours.fileno(), fcntl.F_SETFL, os.O_RDWR | os.O_NONBLOCK | os.O_ASYNC)
    zygote.talk = ours


def _become_zygote(about: Content, talk: int, nursery: int) -> None:
    set_dumpable(True)
    os.setsid()
    if user := about.get("user"):
        os.setgroups(user["groups"])
        os.setresgid(*[user["gid"]] * 3)
        os.setresuid(*[user["uid"]] * 3)
        os.umask(user["umask"])
    die_with_parent(nursery)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    os.dup2(talk, _PLACE)
    os.chdir(about["cwd"])
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(about["argv"][0], about["argv"], about["env"])
