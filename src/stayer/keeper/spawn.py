"""The birth of a task's main process: its session, its files, its ties to the keeper."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from typing import Any

from .folder import RunDirectory
from .kernel import contents, die_with_parent, write_once

_SHARE_OF_BLAME = 500
_LONGEST_WAIT = 2.0
_LONGEST_COMPLAINT = 4000


class Birth:
    """A main process on its way; `failure` tells what kept it from becoming the program."""

    def __init__(self, folder: RunDirectory, spec: dict[str, Any]) -> None:
        # The kernel kills the task's process group when this pipe ends, which it does with us.
        self._life_line = os.pipe()
        self._complaints, complain = os.pipe()
        os.set_blocking(self._complaints, False)
        log = folder.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            stdin = folder.open("input", os.O_RDONLY)
        except OSError:
            stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        keeper = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._tie(keeper)
                for descriptor, place in ((stdin, 0), (log, 1), (log, 2)):
                    os.dup2(descriptor, place)
                _become_the_task(folder, spec)
            except BaseException as error:
                os.write(complain, (str(error) or repr(error)).encode()[:_LONGEST_COMPLAINT])
            finally:
                os._exit(127)
        for descriptor in (complain, stdin, log):
            os.close(descriptor)
        # Its end is news too: the program has begun. A folder on a dead disk must not hold us up.
        select.select([self._complaints], [], [], _LONGEST_WAIT)

    def failure(self) -> str | None:
        """Why it never became the program, if it did not."""
        try:
            said = os.read(self._complaints, _LONGEST_COMPLAINT)
        except BlockingIOError:
            return None
        return said.decode(errors="replace") or None

    def _tie(self, keeper: int) -> None:
        os.setsid()
        die_with_parent(keeper)
        # Either end may go first, so both are armed.
        for end in self._life_line:
            fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpid())
            fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)


def _become_the_task(folder: RunDirectory, spec: dict[str, Any]) -> None:
    _prefer_to_be_killed()
    if spec.get("nice"):
        os.nice(spec["nice"])
    argv, cwd = spec["argv"], spec.get("cwd") or folder.path
    try:
        os.chdir(cwd)
    except OSError as error:
        raise OSError(f"can't enter the directory {cwd}: {error.strerror}") from error
    # All signals have their default action since the nursery began, but are blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvpe(argv[0], argv, spec["env"])
    except OSError as error:
        raise OSError(f"can't run {argv[0]}: {error.strerror}") from error


def _prefer_to_be_killed() -> None:
    """When memory runs out the task goes before its keeper and its worker."""
    score = int(contents("/proc/self/oom_score_adj") or 0)
    write_once("/proc/self/oom_score_adj", str(min(1000, score + _SHARE_OF_BLAME)))
