"""The nursery: forks keepers, outlives the worker, and sweeps up after a keeper that died.

    python -I -S …/keeper/__main__.py STATE_DIRECTORY [VERSION]

One for a state directory and a version of this code; the lock `nursery-VERSION.lock` says it lives.
It reads lines from the pipe `nursery-VERSION.fifo`:

    start RUN_DIRECTORY      fork a keeper for it; it must lie in `run` of the state directory
    preload                  read `preload.json` again: which processes fork tasks (zygotes.py)
    retire                   end when the last keeper has ended
"""

from __future__ import annotations

import fcntl
import gc
import os
import stat
import sys

from . import cgroup, tree
from .folder import RunDirectory
from .keeper import keep
from .kernel import adopt_orphans, contents, moment, set_dumpable, set_name
from .lean import TYPE_CHECKING, Content, loads, signal
from .rehearsal import rehearse

if TYPE_CHECKING:
    from .zygotes import Zygotes

_HEARD = (signal.SIGCHLD, signal.SIGIO)
_LOOK = 30.0
_SWEEP_ROUND = 0.05
_FORGOTTEN_AFTER = 60.0
_LONGEST_LINE = 65536
_MODULUS = (1 << 61) - 1
_PLAINLY = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


def version() -> str:
    """A name for just this code: keepers of another one have a nursery of their own."""
    folder = os.path.dirname(os.path.abspath(__file__))
    text = b""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                text += file.read()
    # Not hashlib, nor zlib: each would bring a library into every keeper.
    return f"{int.from_bytes(text, 'big') % _MODULUS:016x}"


class Nursery:
    """Fork a keeper for each line that a worker sends, and reap those that end.

    `worker/nursery.py` is the other end of the pipe.
    """

    def __init__(self, state: str, name: str, lock: int) -> None:
        self._lock = lock
        self._keepers: dict[int, str] = {}
        self._died: dict[str, int] = {}
        self._zygotes: Zygotes | None = None
        self._retiring = False
        self._asked_at = moment()
        self._buffer = b""
        self._place = os.path.join(state, "run")
        self._runs = _open_runs(self._place)
        path = os.path.join(state, f"nursery-{name}.fifo")
        self._fifo = _open_pipe(path)
        # Open for writing too: no worker at the other end is no end of file. Not by the same
        # descriptor: to one that could also write, each read would be news by itself.
        self._other_end = os.open(path, os.O_WRONLY | _PLAINLY)
        fcntl.fcntl(self._fifo, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._fifo, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | os.O_ASYNC)

    def run(self) -> None:
        """Fork and reap until the last keeper is gone and no worker needs us any more."""
        while True:
            self._read_requests()
            self._reap()
            swept = self._sweep()
            if swept:
                self._speak_for_the_dead()
            if swept and not self._keepers and (self._retiring or self._forgotten()):
                return  # zygotes die with us
            rest = _LOOK if self._zygotes is None else min(_LOOK, self._zygotes.look())
            signal.sigtimedwait(_HEARD, rest if swept else _SWEEP_ROUND)

    def _read_requests(self) -> None:
        while True:
            try:
                self._buffer += os.read(self._fifo, _LONGEST_LINE)
            except BlockingIOError:
                return
            self._asked_at = moment()
            *lines, self._buffer = self._buffer.split(b"\n")
            if len(self._buffer) > _LONGEST_LINE:
                self._buffer = b""
            for line in lines:
                verb, _, argument = line.decode(errors="surrogateescape").partition(" ")
                if verb == "start":
                    self._start(argument)
                elif verb == "preload":
                    self._preload()
                elif verb == "retire":
                    self._retiring = True

    def _preload(self) -> None:
        if self._zygotes is None:
            # Their libraries are for those who need them; each keeper has them from here.
            from . import preloaded  # noqa: F401
            from .zygotes import Zygotes

            self._zygotes = Zygotes()
        self._zygotes.load()

    def _start(self, path: str) -> None:
        if path in self._keepers.values():
            return
        folder = self._open(path)
        if folder is None:
            return
        try:
            pid = os.fork()
            if pid == 0:
                self._become_keeper(folder)
            self._keepers[pid] = path
        except OSError as error:
            never = {"not_started": f"no keeper could be made: {error}", "node": True}
            self._write_exit(path, never)
        finally:
            folder.close()

    def _open(self, path: str) -> RunDirectory | None:
        """A folder in our own `run`, that no other user can write to; None if it is another."""
        try:
            above, name = os.path.split(path)
            is_here = self._is_runs(above) or (self._look_for_runs() and self._is_runs(above))
            if not is_here or name in ("", ".", ".."):
                raise OSError("it does not lie in the folder of run directories")
            folder = RunDirectory(path, self._runs)
        except OSError as error:
            sys.stderr.write(f"not started: {path}: {error}\n")
            return None
        if folder.is_ours():
            return folder
        sys.stderr.write(f"not started: {path}: other users own it, or may write to it\n")
        folder.close()
        return None

    def _is_runs(self, path: str) -> bool:
        return os.path.samestat(os.stat(path), os.fstat(self._runs))

    def _look_for_runs(self) -> bool:
        """Somebody may have deleted the folder, and the worker made another; False if that is not
        our user's alone.
        """
        found = _open_runs(self._place)
        seen = os.fstat(found)
        if seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
            os.close(found)
            return False
        os.close(self._runs)
        self._runs = found
        return True

    def _become_keeper(self, folder: RunDirectory) -> None:
        code = 1
        try:
            os.setsid()
            # The lock is the nursery's own life: another must be able to take its place.
            os.close(self._lock)
            os.close(self._fifo)
            os.close(self._other_end)
            os.close(self._runs)
            set_name("stayer-keeper")
            keep(folder, self._zygotes)
            code = 0
        except BaseException as error:
            sys.stderr.write(f"keeper of {folder.path}: {error!r}\n")
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._zygotes is not None:
                self._zygotes.ended(pid, status)
            path = self._keepers.pop(pid, None)
            if path is not None and status != 0:
                self._died[path] = status

    def _sweep(self) -> bool:
        """What we inherit that is no keeper belonged to one that died. True: nothing is left."""
        # In this order: what such a process leaves behind is our child as soon as it has ended.
        strangers = self._firsts_of_the_dead()
        strangers += [pid for pid in tree.children(os.getpid()) if not self._knows(pid)]
        for pid in strangers:
            tree.kill(pid)
            fields = tree.stat(str(pid))
            if fields is not None:
                tree.send([(pid, fields)], signal.SIGKILL)
        return not strangers

    def _firsts_of_the_dead(self) -> list[int]:
        """The first processes of preloaded tasks whose keeper has died, as far as they live: they
        are children of a zygote, and die with their keeper, but perhaps a moment after it.
        """
        if self._zygotes is None:
            return []
        named = map(self._running, self._died)
        return [
            each["first"]
            for each in named
            if each.get("first") and tree.lives(each["first"], each["first_started"])
        ]

    def _knows(self, pid: int) -> bool:
        """It is ours; or the first process of a task whose zygote has ended before its keeper."""
        if pid in self._keepers or self._zygotes is None:
            return pid in self._keepers
        if self._zygotes.holds(pid):
            return True
        running = map(self._running, self._keepers.values())
        held = [each["first_started"] for each in running if each.get("first") == pid]
        return bool(held) and held[0] == tree.started(pid)

    def _running(self, path: str) -> Content:
        """What the keeper of this run directory says."""
        name = os.path.join(os.path.basename(path), "running")
        try:
            return loads(contents(name, self._runs) or b"{}")
        except ValueError:
            return {}

    def _speak_for_the_dead(self) -> None:
        """A keeper died, and nothing is left of its task: say so in its place."""
        for path, status in list(self._died.items()):
            if path in self._keepers.values():
                continue  # it was asked for again, and what is there now is another's
            self._end_cgroup(path)
            if self._write_exit(path, {"keeper_died": status, "stop": None}):
                del self._died[path]

    def _write_exit(self, path: str, content: dict[str, object]) -> bool:
        """In a keeper's place; False if it is worth another try."""
        try:
            folder = RunDirectory(path, self._runs)
        except OSError:
            return True
        try:
            if not folder.lock():
                return False
            if not folder.exists("exit"):
                folder.write_exit(content)
            return True
        except OSError as error:
            sys.stderr.write(f"{path}: {error}\n")
            return False
        finally:
            folder.close()

    def _end_cgroup(self, path: str) -> None:
        """A dead keeper can't remove the cgroup of its task, if it had one."""
        if name := self._running(path).get("cgroup"):
            cgroup.end(name)

    def _forgotten(self) -> bool:
        """Nothing to do for long, and no worker; the next one will start a nursery.

        Trying the lock itself could make a worker that starts just now believe there is another.
        """
        if moment() < self._asked_at + _FORGOTTEN_AFTER:
            return False
        try:
            inode = os.stat("lock").st_ino
        except OSError:
            return True
        locks = contents("/proc/locks") or b""
        return f":{inode} ".encode() not in locks


def _open_runs(path: str) -> int:
    """The folder of all run directories, by descriptor: what is in it can't be swapped with it."""
    if not os.path.isdir(path):
        os.mkdir(path, 0o700)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_pipe(path: str) -> int:
    """The pipe that workers write to, and that no other user can."""
    while True:
        try:
            found = os.open(path, os.O_RDONLY | _PLAINLY)
        except FileNotFoundError:
            os.mkfifo(path, 0o600)
            continue
        seen = os.fstat(found)
        is_ours = seen.st_uid == os.geteuid() and not seen.st_mode & 0o077
        if is_ours and stat.S_ISFIFO(seen.st_mode):
            return found
        os.close(found)
        os.unlink(path)


def main() -> None:
    """Become the nursery of a state directory; do nothing if there is one."""
    state = os.path.abspath(sys.argv[1])
    # Given by a worker that began before the files of this folder were replaced.
    name = sys.argv[2] if len(sys.argv) > 2 else version()
    while os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) <= 2:
        pass  # what a task gets as its input must not be among the first three
    lock = os.open(
        os.path.join(state, f"nursery-{name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    os.chdir(state)
    os.close(os.pidfd_open(os.getpid()))  # Linux before 5.3: better fail here than in a keeper
    adopt_orphans()
    set_dumpable(False)
    set_name("stayer-nursery")
    _hear_nothing()
    nursery = Nursery(state, name, lock)
    rehearse(state)
    # Pages that the collector does not touch stay shared with every keeper.
    gc.collect()
    gc.disable()
    gc.freeze()
    nursery.run()


def _hear_nothing() -> None:
    """Nothing but KILL and STOP reaches nursery and keepers; tasks begin with default actions."""
    everything = signal.valid_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    for number in everything - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    if os.getpgrp() != os.getpid():
        os.setsid()
