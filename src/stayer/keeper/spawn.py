"""The birth of a task's main process: its session, its files, its ties to the keeper."""

from __future__ import annotations

import fcntl
import os
import select

from . import tree
from .cgroup import Cgroup
from .folder import RunDirectory
from .kernel import contents, die_with_parent, set_dumpable, write_once
from .lean import Content, signal
from .namespace import descend

_SHARE_OF_BLAME = 500
LONGEST_WAIT = 2.0
LONGEST_COMPLAINT = 4000


class Refused(Exception):
    """The node can't start this task; another may."""


class NoZygote(Exception):
    """The zygote of this task forks nothing now: the task is started without it."""


class Lost(Exception):
    """Nobody can say any more what is left of the task: its nursery must end that."""


class Birth:
    """A main process on its way; it waits for `begin`, and `failure` tells what went wrong then."""

    def __init__(
        self, folder: RunDirectory, spec: Content, cgroup: Cgroup | None, log: int
    ) -> None:
        self._keeper = os.getpid()
        # The kernel kills the task's process group when this pipe ends, which it does with us.
        self._life_line = os.pipe()
        self._complaints, self._complain = os.pipe()
        self._told, self._tell = os.pipe()
        self._gate = os.pipe()
        self._isolated = bool(spec.get("isolate"))
        self._log = log
        self.pid = os.fork()
        if self.pid == 0:
            self._be_born(folder, spec)
        for descriptor in (self._complain, self._log, self._tell, self._gate[0]):
            os.close(descriptor)
        self.first: int | None = None
        self.status: int | None = None
        if self._isolated:
            self._meet()
        if cgroup is not None:
            cgroup.take(self.pid)

    def begin(self) -> None:
        """Let it become the program, which may kill us with its first breath."""
        os.write(self._gate[1], b".")
        os.close(self._gate[1])
        # Its end is news too: the program has begun. A folder on a dead disk must not hold us up.
        select.select([self._complaints], [], [], LONGEST_WAIT)
        os.set_blocking(self._complaints, False)

    def failure(self) -> str | None:
        """Why it never became the program, if it did not."""
        return read_complaint(self._complaints)

    def ending(self, reaped: int, status: int) -> int | None:
        """The wait status of the main process, if it is known now that this one was reaped."""
        if self.first is None:
            return status if reaped == self.pid else None
        try:
            said = os.read(self._told, LONGEST_COMPLAINT)
        except BlockingIOError:
            return None
        if said:
            return int(said)
        # The first process is no more, and the kernel has killed the main one with it.
        return int(signal.SIGKILL)

    def is_over(self) -> bool:
        """Without children there is nothing left."""
        return True

    def _be_born(self, folder: RunDirectory, spec: Content) -> None:
        try:
            # The keeper is not; files in /proc that are written below would be out of reach.
            set_dumpable(True)
            if self._isolated:
                descend(self._keeper, self._tell)
                os.setsid()
            else:
                self._tie()
            os.close(self._gate[1])
            if not os.read(self._gate[0], 1):
                os._exit(127)  # the keeper is dead
            prefer_to_be_killed()
            if spec.get("nice"):
                os.nice(spec["nice"])
            if spec.get("user"):
                self._become(spec["user"])
            for descriptor, place in ((open_input(folder), 0), (self._log, 1), (self._log, 2)):
                os.dup2(descriptor, place)
            _become_the_task(folder, spec)
        except BaseException as error:
            os.write(self._complain, (str(error) or repr(error)).encode()[:LONGEST_COMPLAINT])
        finally:
            os._exit(127)

    def _meet(self) -> None:
        """Find the two processes that the scout left behind."""
        _, status = os.waitpid(self.pid, 0)
        # A line from the first process: the main one is there, and waits at the gate.
        if status != 0 or not os.read(self._told, 1):
            raise Refused(self.failure() or f"the namespace was lost, wait status {status}")
        [self.first] = tree.children(self._keeper)
        [self.pid] = tree.children(self.first)
        os.set_blocking(self._told, False)
        fcntl.fcntl(self._told, fcntl.F_SETOWN, self._keeper)
        fcntl.fcntl(self._told, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)

    def _become(self, user: Content) -> None:
        """Be the user that the task is to run as, for good."""
        # Else it could not open its own output by name, as in `echo text > /dev/stderr`.
        os.fchown(self._log, user["uid"], user["gid"])
        os.setgroups(user["groups"])
        os.setresgid(*[user["gid"]] * 3)
        os.setresuid(*[user["uid"]] * 3)
        os.umask(user["umask"])
        if not self._isolated:
            # The kernel has forgotten that we die with the keeper; it may have died just now.
            die_with_parent(self._keeper)
            if (contents("/proc/self/uid_map") or b"").split()[:2] != [b"0", b"0"]:
                # The root of a container is not heard when it is about other users.
                self._arm_life_line()

    def _tie(self) -> None:
        os.setsid()
        die_with_parent(self._keeper)
        # Before rights are given up: a signal from root reaches all that the task may become.
        self._arm_life_line()

    def _arm_life_line(self) -> None:
        # Either end may go first, so both are armed.
        for end in self._life_line:
            fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpid())
            fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)


def read_complaint(pipe: int) -> str | None:
    """What it holds, if anything."""
    try:
        said = os.read(pipe, LONGEST_COMPLAINT)
    except BlockingIOError:
        return None
    return said.decode(errors="replace") or None


def open_input(folder: RunDirectory) -> int:
    """Opened by the task's own rights: whatever was put there is nothing that it could not read."""
    try:
        found = folder.task.open("input", os.O_RDONLY)
        os.set_blocking(found, True)
        return found
    except OSError:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)


def _become_the_task(folder: RunDirectory, spec: Content) -> None:
    argv, cwd = spec["argv"], spec.get("cwd") or folder.path
    try:
        os.chdir(cwd)
    except OSError as error:
        raise OSError(f"can't enter the directory {cwd}: {error.strerror}") from error
    # All signals have their default action since the nursery began, but are blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        if spec.get("program"):  # the worker has found it, and may run nothing else
            os.execve(spec["program"], argv, spec["env"])
        os.execvpe(argv[0], argv, spec["env"])
    except OSError as error:
        raise OSError(f"can't run {argv[0]}: {error.strerror}{_hint(argv, error)}") from error


def _hint(argv: list[str], error: OSError) -> str:
    """Say what was probably meant: a line for a shell, or a program of the submitter's own PATH."""
    if len(argv) == 1 and set(" \t\n|&;<>$`*?") & set(argv[0]):
        return " (it is no program: give each argument apart, or let a shell run it, sh -c '…')"
    if "/" not in argv[0] and isinstance(error, FileNotFoundError):
        return " (not found in PATH: that of the worker, unless --env gives another)"
    return ""


def prefer_to_be_killed() -> None:
    """When memory runs out the task goes before its keeper and its worker."""
    score = int(contents("/proc/self/oom_score_adj") or 0)
    write_once("/proc/self/oom_score_adj", str(min(1000, score + _SHARE_OF_BLAME)))
