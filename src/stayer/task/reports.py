"""How far a task has come: lines appended to its `report` file, not too many of them."""

from __future__ import annotations

import atexit
import json
import math
import operator
import os
import threading
import time
from collections.abc import Mapping
from typing import SupportsFloat, SupportsIndex, TypeAlias

Number: TypeAlias = SupportsIndex | SupportsFloat

MESSAGE_LIMIT = 1000
_FIRST_INTERVAL_S, _LATER_INTERVAL_S = 0.1, 1.0
"""How long between two lines, at first and later: a task of weeks must not fill the disk."""
_FIRST_LINES = 1000


def write(path: str, done: Number | None, total: Number | None, message: str | None) -> None:
    """Append a line, whole or not at all."""
    report = {"done": number(done), "total": number(total), "message": short(message)}
    _append(path, {name: value for name, value in report.items() if value is not None})


def write_meta(path: str, fields: Mapping[str, object]) -> None:
    """Append a line that sets fields of the user's own."""
    _append(path, {"meta": dict(fields)})


def _append(path: str, content: Mapping[str, object]) -> None:
    line = json.dumps(content)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        data = line.encode() + b"\n"
        if os.write(descriptor, data) < len(data):  # the disk is full
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def number(value: Number | None) -> float | None:
    """Convert to a number, also from what numpy and its like call one; what is none to JSON is left
    out.
    """
    if value is None:
        return None
    if isinstance(value, SupportsIndex):
        return operator.index(value)
    found = float(value)
    return found if math.isfinite(found) else None


def short(message: str | None) -> str | None:
    """Cut a message to what is shown."""
    if message is None or len(message) <= MESSAGE_LIMIT:
        return message
    return message[: MESSAGE_LIMIT - 1] + "…"


class Reports:
    """The `report` file of a task: takes any number of reports, writes a few, the last always.

    From any thread, and from processes that the task forks. A report is news, not work: one that
    can't be written is dropped.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._last: tuple[Number | None, Number | None, str | None] = (None, None, None)
        self._lines = 0
        self._reset()
        atexit.register(self.flush)

    def _reset(self) -> None:
        # Reentrant, because a signal's handler may report while its thread is at it.
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._waiting = False
        self._timer: threading.Timer | None = None
        self._next = -math.inf

    def add(self, done: Number | None, total: Number | None, message: str | None) -> None:
        """Take a report; without a number, what was done before still stands."""
        if self._process != os.getpid():
            self._reset()  # the lock may be another thread's, which was not forked
        with self._lock:
            if done is None:
                done, total = self._last[:2]
            self._last = (done, total, message)
            self._waiting = True
            pause = self._next - time.monotonic()
            if pause <= 0:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(pause, self._write_late)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write the last report, if that has not been done."""
        if self._process != os.getpid():
            return  # it is for the process that made it to write
        with self._lock:
            if not self._waiting:
                return
            self._waiting = False
            self._lines += 1
            pause = _FIRST_INTERVAL_S if self._lines < _FIRST_LINES else _LATER_INTERVAL_S
            self._next = time.monotonic() + pause
            try:
                write(self._path, *self._last)
            except OSError:
                return

    def _write_late(self) -> None:
        with self._lock:
            self._timer = None
            self.flush()
