"""What a task says of itself: lines appended to its `report` file, not too many of them."""

from __future__ import annotations

import atexit
import json
import math
import operator
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

Number: TypeAlias = SupportsIndex | SupportsFloat

MESSAGE_LIMIT = 1000
_INTERVALS_S = ((1000, 0.1), (5000, 1.0))
"""How long between two times of writing, up to how many of them …"""
_LAST_INTERVAL_S = 5.0
"""… and then: a task of weeks must not fill the disk."""
_VALUES_AT_ONCE = 20
"""So many values of a metric are written one by one at a time; what is beyond them as one."""
_STEP_WAIT_S = 0.05
"""For so long a step that begins may end before it is written."""
_STEPS_AT_ONCE = 200
"""So many lines of steps are written at a time; what is beyond them is dropped."""


def write_meta(path: str, fields: Mapping[str, object]) -> None:
    """Append a line that sets fields of the user's own."""
    write(path, [{"meta": dict(fields)}])


def write(path: str, lines: Iterable[Mapping[str, object]]) -> None:
    """Append lines, whole or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
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
        self._metrics: dict[str, list[dict[str, Any]]] = {}
        self._steps: dict[str, dict[str, Any]] = {}
        self._writes = 0
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
        self._check_process()
        with self._lock:
            if done is None:
                done, total = self._last[:2]
            self._last = (done, total, message)
            self._waiting = True
            self._write_soon()

    def add_metric(self, name: str, value: Number, x: Number | None) -> None:
        """Take a value of a metric. Of many, some are written as what they have come to."""
        line = {"metric": {name: number(value)}, "at": wall_clock()}
        if (of := number(x)) is not None:
            line["x"] = of
        self._check_process()
        with self._lock:
            waiting = self._metrics.setdefault(name, [])
            waiting.append(line)
            if len(waiting) > (_VALUES_AT_ONCE if self._writes < _INTERVALS_S[0][0] else 1):
                waiting[-2:] = [_merged(name, *waiting[-2:])]
            self._write_soon()

    def begin_step(self, name: str) -> None:
        """Take that a step begins."""
        self._add_step(f"begin {name}", {"step": name, "nested": True, "at": wall_clock()})

    def end_step(self, name: str, elapsed: float) -> None:
        """Take that a step has ended. One that took no longer than until now is a part of one
        line for all of its kind.
        """
        self._check_process()
        with self._lock:
            line: dict[str, Any] = {"step": name, "elapsed": round(elapsed, 6), "at": wall_clock()}
            if self._steps.pop(f"begin {name}", None) is None:
                self._add_step(f"end {name}", {**line, "end": True})
                return
            known = self._steps.pop(f"rounds {name}", {"elapsed": 0.0, "count": 0})
            line["elapsed"] = round(known["elapsed"] + elapsed, 6)
            self._add_step(f"rounds {name}", {**line, "count": known["count"] + 1})

    def _add_step(self, key: str, line: dict[str, Any]) -> None:
        self._check_process()
        with self._lock:
            if len(self._steps) < _STEPS_AT_ONCE:
                self._steps[key] = line
            self._write_soon()

    def _write_soon(self) -> None:
        pause = self._next - time.monotonic()
        if pause <= 0 and not self._steps:
            self.flush()
        elif self._timer is None:
            self._timer = threading.Timer(max(pause, _STEP_WAIT_S), self._write_late)
            self._timer.daemon = True
            self._timer.start()

    def flush(self) -> None:
        """Write what is waiting."""
        if self._process != os.getpid():
            return  # it is for the process that made it to write
        with self._lock:
            lines = [line for waiting in self._metrics.values() for line in waiting]
            lines.extend(self._steps.values())
            lines.sort(key=lambda line: line["at"])
            if self._waiting:
                lines.append(progress_line(*self._last))
            if not lines:
                return
            self._waiting = False
            self._metrics, self._steps = {}, {}
            self._writes += 1
            pauses = (pause for writes, pause in _INTERVALS_S if self._writes < writes)
            self._next = time.monotonic() + next(pauses, _LAST_INTERVAL_S)
            try:
                write(self._path, lines)
            except OSError:
                return

    def _check_process(self) -> None:
        if self._process != os.getpid():
            self._metrics, self._steps = {}, {}  # they are for the process that has them to write
            self._reset()  # the lock may be another thread's, which was not forked

    def _write_late(self) -> None:
        with self._lock:
            self._timer = None
            self.flush()


def progress_line(
    done: Number | None, total: Number | None, message: str | None
) -> dict[str, object]:
    """Return what a line of progress says."""
    report = {"done": number(done), "total": number(total), "message": short(message)}
    return {name: value for name, value in report.items() if value is not None}


def _merged(name: str, earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return one line for the values of two: what they have come to."""
    values = [_as_many(line["metric"][name]) for line in (earlier, later)]
    bounds = {
        word: choose((each[word] for each in values if each[word] is not None), default=None)
        for word, choose in (("min", min), ("max", max))
    }
    count = sum(each["count"] for each in values)
    together = {"last": values[1]["last"], **bounds, "count": count}
    return {**later, "metric": {name: together}}


def _as_many(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {"last": value, "min": value, "max": value, "count": 1}


def wall_clock() -> float:
    """Return the moment as lines have it: the worker knows how long ago that was."""
    return round(time.time(), 3)
