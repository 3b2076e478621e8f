"""Asking a process what it knows, though it may not be ours: what it says is read up to a limit,
and nothing is waited for that others could hold open or keep silent.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from msgspec import Struct

ANSWER_LIMIT_BYTES = 4 * 1000 * 1000
"""How much of the answer is read."""
_COMPLAINT_TAIL_BYTES = 64_000
"""How much is kept of what it writes to stderr, from the end."""
_ANSWER_TIMEOUT_S = 600.0
"""How long the process may take to answer."""
_READ_BYTES = 65536
_STOPPED_CHECK_S = 0.2
"""How often to look whether somebody stopped the process."""
_OUT_OF_RESOURCES = (errno.EAGAIN, errno.ENOMEM)


class ProcessInterrupted(Exception):
    """It came to no end of its own: that says nothing of what it was asked about."""


class AnswerTooLong(Exception):
    """It says more than is read."""


class Answer(Struct, frozen=True):
    """How it ended, and what it said."""

    code: int
    """As `subprocess` has it: negative for a signal."""
    output: bytes
    complaint: str
    """The last line of its stderr."""


def ask(
    words: Sequence[str],
    process: Mapping[str, Any],
    *,
    is_called_off: Callable[[], bool] = lambda: False,
) -> Answer:
    """Run these words to their end; `process` are further arguments of `subprocess`.

    Raises ProcessInterrupted, AnswerTooLong, and OSError if they can't be run.
    """
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            **process,
        )  # fmt: skip
    except OSError as error:
        if error.errno in _OUT_OF_RESOURCES:  # there is no room for another process just now
            raise ProcessInterrupted(f"it can't be started: {error.strerror}") from error
        raise
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        with child.stdout, child.stderr:
            # Whoever shares our terminal is stopped with us, and goes on with us.
            watch = bool(process.get("start_new_session"))
            return _read_answer(child, child.stdout, child.stderr, watch, is_called_off)
    finally:
        end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing of it, if we may end it."""
    with suppress(PermissionError):
        child.kill()
        child.wait()


def describe_signal(code: int) -> str:
    """Say what a negative exit code means."""
    number = -code
    known = number in signal.valid_signals()
    return f"it was killed by {signal.Signals(number).name if known else f'signal {number}'}"


def _read_answer(
    child: subprocess.Popen[bytes],
    out: IO[bytes],
    complaints: IO[bytes],
    watch: bool,
    is_called_off: Callable[[], bool],
) -> Answer:
    until = time.monotonic() + _ANSWER_TIMEOUT_S
    output, errors = bytearray(), bytearray()
    life = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(life, selectors.EVENT_READ)
            for stream, kept in ((out, output), (complaints, errors)):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, kept)
            while True:
                ready = selector.select(_STOPPED_CHECK_S)
                # What it said before its end is in the pipes then; others may hold them open.
                has_ended = any(key.fd == life for key, _ in ready)
                for key, _ in ready:
                    if key.fd != life and not _take(key.fd, key.data):
                        selector.unregister(key.fileobj)
                if len(output) > ANSWER_LIMIT_BYTES:
                    raise AnswerTooLong
                del errors[:-_COMPLAINT_TAIL_BYTES]
                if has_ended:
                    break
                if watch and (number := _find_stop_signal(child.pid)) is not None:
                    raise ProcessInterrupted(f"it was stopped by {signal.Signals(number).name}")
                if is_called_off():
                    raise ProcessInterrupted("it is not needed any more")
                if time.monotonic() > until:
                    raise ProcessInterrupted("it did not end in time")
            for stream, kept in ((out, output), (complaints, errors)):
                _drain(stream.fileno(), kept)
            if len(output) > ANSWER_LIMIT_BYTES:
                raise AnswerTooLong
    finally:
        os.close(life)
    return Answer(child.wait(), bytes(output), _last_line(errors))


def _take(descriptor: int, kept: bytearray) -> bool:
    """Read a piece; False at the end."""
    try:
        piece = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return True
    kept += piece
    return bool(piece)


def _drain(descriptor: int, kept: bytearray) -> None:
    """Read what a pipe holds, and not what somebody goes on to write."""
    for _ in range(16):
        before = len(kept)
        if not _take(descriptor, kept) or len(kept) == before:
            return


def _find_stop_signal(pid: int) -> int | None:
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # it has ended just now
        return None
    return None if found is None else found.si_status


def _last_line(errors: bytearray) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1][:1000] if lines else ""
