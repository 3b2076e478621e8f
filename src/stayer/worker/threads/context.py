"""What a task in a thread sees of Stayer: as in a process, but without a run directory."""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Token
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from stayer.core import codec
from stayer.core.happenings import Fail, Happening, Interrupt, SetMeta, Stop
from stayer.core.insight.statistics import Recorder
from stayer.core.lifecycle import OVERDUE
from stayer.core.model import JSON, Fault, LogPiece, Progress, Report, Task, Value
from stayer.service import upstream_results
from stayer.service.control import tasks as control
from stayer.store import LOG_TAIL, Store
from stayer.task.checkpoints import Checkpoints
from stayer.task.context import Context, TimedStep, in_this_thread
from stayer.task.reports import Number, number, short

Why = Literal["cancel", "interrupt", "timeout", "deadline", "lost"]
Tell: TypeAlias = "Callable[[ThreadContext, Report, bool], None]"
"""Sends news; the last argument: at once."""


class ThreadContext(Context):
    """The running task, seen from inside its thread or coroutine."""

    # In the class, what most tasks never change: short ones make many of these.
    stop_noticed = False
    """The task has seen that it must stop."""
    why: Why | None = None
    """Why it must."""
    abort: Callable[[], object] | None = None
    """Stops a coroutine from outside."""
    has_news = False
    last_news = 0
    """The number of the last news that was told."""
    result: Value = None
    """What `set_result` was given."""
    _cancelled = False
    _stop_by = None
    _progress: Progress | None = None
    _last = Progress()
    _first: tuple[float, float] | None = None
    _log_start = 0
    _phase: TimedStep | None = None
    _began: float | None = None
    _has_statistics = False
    _token: Token[Context | None] | None = None
    _news = threading.Lock()
    """Held for moments only: one for all of them will do."""

    def __init__(self, task: Task, store: Store, tell: Tell) -> None:
        # Nothing of what a run directory needs.
        self.record = task
        self._store = store
        self._tell = tell

    @functools.cached_property
    def _steps_done(self) -> set[str]:  # type: ignore[override]
        return set()

    @functools.cached_property
    def _log(self) -> list[bytes]:
        return []

    @functools.cached_property
    def folder(self) -> Path:  # type: ignore[override]
        """A folder of its own for as long as it runs, made when it is first asked for."""
        return Path(tempfile.mkdtemp(prefix="stayer-"))

    @functools.cached_property
    def inputs(self) -> dict[str, Any]:
        """The results of what it runs after, read from the store when first asked for."""
        return upstream_results.of(self._store, self.record)

    @functools.cached_property
    def _recorder(self) -> Recorder:
        return Recorder()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._token = in_this_thread.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        in_this_thread.reset(self._token)
        self._end_phase()
        if "folder" in self.__dict__:
            with suppress(RecursionError):  # a folder in a folder in a folder…
                shutil.rmtree(self.folder, ignore_errors=True)

    @functools.cached_property
    def log(self) -> logging.Logger:
        """Writes to the task's log, with the time."""
        logger = logging.Logger("stayer.task", logging.INFO)
        handler = logging.StreamHandler(_LogStream(self))
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        return logger

    def progress(
        self,
        done: Number | None = None,
        total: Number | None = None,
        message: str | None = None,
    ) -> None:
        """Say how far it is; it goes out with the next beat, the last one always."""
        amount = number(done)
        with self._news:
            whole = number(total) if amount is not None else self._last.total
            amount = self._last.done if amount is None else amount
            remaining = self._remaining(amount, whole)
            self._last = Progress(amount, whole, short(message), remaining=remaining)
            self._progress = self._last
            self.has_news = True

    def _send_meta(self, fields: dict[str, JSON]) -> None:
        """Let the store know at once; raises NotHeld if the task is no longer ours."""
        control.settle(self._store, self.record, SetMeta(fields, by_task=True))

    def _add_metric(self, name: str, value: Number, x: Number | None) -> None:
        found, of = number(value), number(x)
        with self._news:
            self._recorder.add(name, found, self._age(), of)
            self._has_statistics = self.has_news = True

    def _begin_step(self, name: str) -> None:
        with self._news:
            self._recorder.begin(name, self._age(), nested=True)
            self._has_statistics = self.has_news = True

    def _end_step(self, name: str, elapsed: float) -> None:
        with self._news:
            self._recorder.end(name, self._age(), elapsed)
            self._has_statistics = self.has_news = True

    def _age(self) -> float:
        """Return for how long it has run."""
        return 0.0 if self._began is None else round(time.monotonic() - self._began, 3)

    def set_result(self, value: object) -> None:
        """Set the result of the task; what its function returns comes last, unless that is None."""
        codec.pack(value, "the result", codec.RESULT_LIMIT)  # type: ignore[arg-type]
        self.result = value  # type: ignore[assignment]

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to stop. Who has seen that it was, and ends, has been stopped."""
        self.stop_noticed |= self._cancelled
        return self._cancelled

    def sleep(self, seconds: float) -> bool:
        super().sleep(seconds)
        return not self.cancelled

    def ask_to_stop(self, why: Why) -> None:
        """Make it stop, as far as it listens; called from other threads."""
        if self.why in (None, "interrupt"):
            self.why = why
        first = not self._cancelled
        stop_by = self.request_stop()
        if stop_by is not None:
            if first:
                self.stop_noticed = True
                # Whatever it does, and however long that takes, the pool goes on.
                threading.Thread(target=_call, args=(stop_by,), name="stop", daemon=True).start()
        elif self.abort is not None and why != "interrupt":
            self.abort()

    def read_stop(self) -> Happening:
        """Return how it ended, since it has seen that it must stop."""
        match self.why:
            case "cancel":
                return Stop()
            case "timeout":
                return Fail(Fault("TimeLimit", "it ran longer than its time limit"), "timeout")
            case "deadline":
                return Fail(OVERDUE, "expired")
            case _:
                return Interrupt("its worker stopped")

    def write_log(self, text: str) -> None:
        """Add to the task's log; when nobody fetches it, the end of it is kept."""
        with self._news:
            self._log.append(text.encode("utf-8", "backslashreplace"))
            self.has_news = True
            while len(self._log) > 1 and sum(map(len, self._log)) > LOG_TAIL:
                self._log_start += len(self._log.pop(0))

    def gather(self) -> Report | None:
        """Gather what is new since the last call."""
        if not self.has_news:
            return None
        with self._news:
            self.has_news = False
            data, self._log = b"".join(self._log), []
            pieces = (LogPiece(self._log_start, data),) if data else ()
            self._log_start += len(data)
            progress, self._progress = self._progress, None
            statistics = self._recorder.result() if self._has_statistics else None
            self._has_statistics = False
        return Report(
            id=self.record.id, attempt=self.record.attempt, progress=progress, log=pieces,
            statistics=statistics,
        )  # fmt: skip

    @functools.cached_property
    def _checkpoints(self) -> Checkpoints:  # type: ignore[override]

        def send(data: bytes) -> None:
            report = Report(id=self.id, attempt=self.attempt, checkpoint=data)
            self._tell(self, report, True)

        return _StoreCheckpoints(self.record, self._store, send)

    def _remaining(self, done: float | None, total: float | None) -> float | None:
        """Estimate the time left, from the rate since the first report."""
        if done is None or total is None:
            return None
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
            return None
        began, first = self._first
        rate = (done - first) / (now - began) if now > began else 0.0
        return max(0.0, (total - done) / rate) if rate > 0 else None


def _call(stop_by: Callable[[], object]) -> None:
    with suppress(BaseException):
        stop_by()


class _LogStream:
    """The task's log as a stream."""

    def __init__(self, context: ThreadContext) -> None:
        self._context = context

    def write(self, text: str) -> None:
        self._context.write_log(text)


class _StoreCheckpoints(Checkpoints):
    """The checkpoint in the store, which gets a new one with a beat at once."""

    def __init__(self, task: Task, store: Store, send: Callable[[bytes], None]) -> None:
        super().__init__(f"of task {task.id}")
        self._task = task
        self._store = store
        self._send = send
        self._data: bytes | None = None

    def _load(self) -> bytes:
        if self._data is None:
            found = self._store.checkpoint(self._task.id) if self._task.attempt > 1 else None
            self._data = found.data if found is not None else b""
        return self._data

    def _save(self, data: bytes) -> None:
        self._data = data
        self._send(data)
