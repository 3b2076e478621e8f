"""Going on in the background: `--daemon PIDFILE`."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from stayer.core.errors import BadInput, Refused

_LONGEST = 20
"""Bytes of a process id and its line end."""


def begin_daemon(file: str, log: str | None) -> Callable[[], None]:
    """Go on in a process and session of its own; the process that was called waits until that says
    it has begun, or ends with its exit code. Returns what is to be called then: from there on, all
    that it prints goes to the log. To be called before there are threads.
    """
    if log is None:
        raise BadInput("--daemon needs --log FILE: nobody would see what the worker has to say")
    descriptor = _take_file(Path(file))
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        _leave_when_begun(child, reading)
    os.close(reading)
    os.setsid()
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())

    def has_begun() -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(nowhere, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(nowhere)
        os.close(output)
        os.write(writing, b"1")
        os.close(writing)

    return has_begun


def _take_file(path: Path) -> int:
    """Open the file and lock it for as long as the process lives. What a dead one has left there is
    nobody's.
    """
    try:
        how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, how, 0o644)
    except OSError as error:
        raise BadInput(f"--daemon {path} can't be written: {error.strerror}") from None
    found = os.fstat(descriptor)
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if not is_ours or not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
        raise BadInput(
            f"--daemon {path} is no file of ours with a process id: others own it or may write to "
            "it, or it holds something else. Name another"
        )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = os.read(descriptor, 20).decode(errors="replace").strip()
        raise Refused(f"{path} is that of process {pid}, which runs: name another file") from None
    return descriptor


def _leave_when_begun(child: int, reading: int) -> None:
    begun = os.read(reading, 1)
    if begun:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
