"""Working on a claimed task: how it begins, what it reports, how it ends.

Everything it writes names (worker, attempt) and is refused once they hold the task no longer. It
works in any process; progress and checkpoints travel with the heartbeat of the task's listener.
"""

from __future__ import annotations

import functools
import math
import os
import time
import traceback
from contextlib import suppress
from typing import Any, Self, cast

from stayer.client.handle import TaskHandle, as_stored
from stayer.client.listener import Listener
from stayer.client.values import Duration, Storable, seconds
from stayer.core import meta
from stayer.core.codec import CHECKPOINT_LIMIT
from stayer.core.errors import BadInput, LeaseLost, NotHeld, Refused, StayerError, TooLarge
from stayer.core.happenings import Done, Fail, Happening, Interrupt, SetMeta, Snooze, Start, Stop
from stayer.core.insight.statistics import Recorder
from stayer.core.lifecycle import decide, read_exception
from stayer.core.model import JSON, RUNNING, Fault, Progress, Report, Task, Value
from stayer.core.retries import class_name
from stayer.core.units import format_size
from stayer.service import tracing, upstream_results
from stayer.service.control import tasks as control
from stayer.service.lease.heartbeat import Heartbeat
from stayer.store import Store

CANCEL_CHECK_S = 1.0
"""How often at most another process asks the store whether its task was cancelled."""


class Processor:
    """One attempt at a task. As a context manager: starts it, then completes it, or fails it with
    the exception, which goes on; leaving by KeyboardInterrupt or SystemExit gives it back.
    """

    def __init__(
        self, store: Store, task: TaskHandle[object] | Task, listener: Listener | None
    ) -> None:
        record = task if isinstance(task, Task) else task.record
        if record.worker is None or record.state not in RUNNING:
            raise NotHeld(
                f"task {record.id} is {record.state}, nobody holds it: claim it with a listener"
            )
        self.task: TaskHandle[object] = (
            TaskHandle(store, task, as_stored) if isinstance(task, Task) else task
        )
        self._store = store
        self._held = record
        self._listener = listener
        if listener is not None:
            listener.note_begin(record)
        self._over: str | None = None
        self._cancelled = record.cancel_wanted
        self._looked_at = -math.inf
        self._pace: tuple[float, float] | None = None
        self._since = time.monotonic()
        self._recorder: Recorder | None = None

    def __repr__(self) -> str:
        return f"<Processor of task {self._held.id}, attempt {self._held.attempt}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._over:
            return
        if error is None:
            self.complete()
        elif isinstance(error, NotHeld):
            return
        elif isinstance(error, Exception):
            self.fail(error)
        else:
            self.give_back()

    @property
    def parameters(self) -> Value:
        """What the task is to work on."""
        return self._held.parameters

    @functools.cached_property
    def inputs(self) -> dict[str, Any]:
        """The results of what it runs after: by their names in the flow, else by their ids."""
        return upstream_results.of(self._store, self._held)

    def start(self, pid: int | None = None) -> Value:
        """Say that the work begins, in this process unless told otherwise; the parameters."""
        self._settle(Start(os.getpid() if pid is None else pid))
        return self._held.parameters

    def complete(self, result: Storable = None) -> None:
        """Say that it is done, and what came out."""
        self._settle(Done(cast(Value, result)), "completed")

    def fail(self, error: str | BaseException | Fault) -> None:
        """Say that it went wrong: charged as a failure, run again if it has retries left."""
        fault = as_fault(error)
        happening = (
            read_exception(error, fault) if isinstance(error, BaseException) else Fail(fault)
        )
        self._settle(happening, "failed")

    def give_back(self) -> None:
        """Put it back to its place in the queue, free of charge."""
        self._settle(Interrupt("given back"), "given back")

    def snooze(self, delay: Duration) -> None:
        """Put it back to be run again after this time, free of charge."""
        self._settle(Snooze(seconds(delay)), "snoozed")

    def stopped(self) -> None:
        """Say that the work was stopped as wanted: the task is cancelled."""
        if not self.cancelled and not self._ask_store():
            raise Refused(
                f"nobody has cancelled task {self._held.id}: complete it, fail it or give it back"
            )
        self._settle(Stop(), "stopped")

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants the task gone: then stop the work and say `stopped()`."""
        self._check()
        if self._cancelled:
            return True
        if self._listener is not None and self._listener.heartbeat is not None:
            self._cancelled = self._listener.is_cancelled(self._held)
        elif time.monotonic() >= self._looked_at + CANCEL_CHECK_S:
            self._cancelled = self._ask_store()
        return self._cancelled

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far it has come; cheap, the news goes out with the next heartbeat."""
        for what, number in (("done", done), ("total", total)):
            if number is not None and not _is_number(number):
                raise BadInput(f"progress: {what} is {number!r}, not a number")
        message = None if message is None else str(message)
        remaining = self._remaining(done, total)
        news = Progress(done=done, total=total, message=message, remaining=remaining)
        self._report(Report(id=self._held.id, attempt=self._held.attempt, progress=news))

    def metric(self, name: str, value: float, x: float | None = None) -> None:
        """Report a value that changes over time, such as a loss, perhaps for an `x`, such as the
        number of the epoch; it goes out with the next heartbeat.
        """
        for what, number in (("value", value), ("x", x)):
            if number is not None and not isinstance(number, int | float):
                raise BadInput(f"metric {name!r}: {what} is {number!r}, not a number")
        self._recorded().add(name, value, self._age(), x)
        self._report_statistics()

    def step(self, name: str) -> None:
        """Say what begins now; the step before it, if there is one, ends."""
        self._recorded().begin(name, self._age())
        self._report_statistics()

    def _age(self) -> float:
        return round(time.monotonic() - self._since, 3)

    def _recorded(self) -> Recorder:
        if self._recorder is None:
            self._recorder = Recorder()
        return self._recorder

    def _report_statistics(self) -> None:
        held, found = self._held, self._recorded().result()
        self._report(Report(id=held.id, attempt=held.attempt, statistics=found))

    def checkpoint(self, data: bytes) -> None:
        """Keep this for the next attempt, if there must be one; it is stored when this returns."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise BadInput(
                f"a checkpoint is bytes, not {type(data).__name__}: encode it, as JSON for example"
            )
        data = bytes(data)
        if len(data) > CHECKPOINT_LIMIT:
            raise TooLarge(
                f"a checkpoint of {format_size(len(data))} is over the limit of "
                f"{format_size(CHECKPOINT_LIMIT)}: store the data elsewhere and keep where it is"
            )
        held = self._held
        heartbeat = self._report(Report(id=held.id, attempt=held.attempt, checkpoint=data))
        try:
            heartbeat.beat_now()
        except LeaseLost:
            self._check()
        self._ask_store()  # what is no longer held was not kept

    def set_meta(self, /, **fields: JSON) -> None:
        """Set fields of your own, to find it by; None takes one away. They are stored when this
        returns.
        """
        self._check()
        self._settle(SetMeta(meta.check_names("meta", fields), by_task=True))

    def restore(self) -> bytes | None:
        """Read the newest checkpoint, of this or an earlier attempt."""
        found = self._store.checkpoint(self._held.id)
        return None if found is None else found.data

    def _settle(self, happening: Happening, over: str | None = None) -> None:
        if self._over:
            raise NotHeld(f"task {self._held.id} was {self._over} by this processor already")
        before = self._held
        if over and self._recorder is not None:
            self._send_last_statistics(self._recorder)
        settled = control.settle(self._store, before, happening)
        self._held = self.task._record = settled
        if over:
            if tracing.is_active():
                tracing.attempt(before, decide(before, happening))
            self._over = over
            if self._listener is not None:
                self._listener.forget(self._held)

    def _send_last_statistics(self, recorder: Recorder) -> None:
        """Let the store have the last values before it hears of the end."""
        if recorder.phase is not None:
            recorder.end(recorder.phase, self._age())
        with suppress(StayerError):  # what comes next says it
            held = self._held
            report = Report(id=held.id, attempt=held.attempt, statistics=recorder.result())
            self._report(report).beat_now()

    def _check(self) -> None:
        """Refuse what is known here to be over, without asking the store."""
        held = self._held
        if self._over:
            raise NotHeld(f"task {held.id} was {self._over} by this processor already")
        if self._listener is not None and (self._listener.lost or self._listener.closed):
            how = "lost its lease" if self._listener.lost else "was closed"
            raise NotHeld(
                f"task {held.id} is no longer held by attempt {held.attempt} of worker "
                f"{held.worker}, which {how}: stop working on it"
            )

    def _ask_store(self) -> bool:
        """Tell whether a cancel is wanted, from the store; NotHeld if the attempt is over."""
        self._looked_at = time.monotonic()
        held, current = self._held, self._store.get([self._held.id])[0]
        if (
            current is None
            or current.state not in RUNNING
            or ((current.worker, current.attempt) != (held.worker, held.attempt))
        ):
            raise NotHeld(
                f"task {held.id} is no longer held by attempt {held.attempt} of worker "
                f"{held.worker}: stop working on it"
            )
        return current.cancel_wanted

    def _report(self, report: Report) -> Heartbeat:
        self._check()
        heartbeat = None if self._listener is None else self._listener.heartbeat
        if heartbeat is None:
            raise Refused(
                f"news of task {report.id} travels with the heartbeat of its listener: report "
                "progress and checkpoints in the process that listens"
            )
        heartbeat.report(report)
        return heartbeat

    def _remaining(self, done: float, total: float | None) -> float | None:
        """Seconds to the end at the pace since the first report, which may follow a restore."""
        now = time.monotonic()
        if self._pace is None:
            self._pace = (now, done)
        since, first = self._pace
        if total is None or done <= first:
            return None
        return max(0.0, (total - done) * (now - since) / (done - first))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def as_fault(error: str | BaseException | Fault) -> Fault:
    """Describe what went wrong, as the record has it."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, str):
        return Fault("Error", _storable(error))
    if not isinstance(error, BaseException):
        raise BadInput(f"error {error!r}: give a message, an exception or a Fault")
    # TracebackException also knows how to show an exception whose own __str__ fails.
    trace = traceback.TracebackException.from_exception(error)
    return Fault(class_name(type(error)), _storable(str(trace)), _storable("".join(trace.format())))


def _storable(text: str) -> str:
    """Text without the lone surrogates that file names bring along."""
    return text.encode("utf-8", "backslashreplace").decode()
