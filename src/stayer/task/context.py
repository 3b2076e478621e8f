"""`Context`: what a task calls to say how far it is, to save its state, to hear that it must stop.

Handlers are given one by the runner, any Python program within a task gets it from `current_task`,
and tests make one with `Context.for_test`.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast, overload

from msgspec import UNSET

from stayer.core.errors import BadInput
from stayer.core.insight.statistics import short_name
from stayer.core.model import JSON, Task, Value
from stayer.task import record, reports
from stayer.task.checkpoints import Checkpoints
from stayer.task.reports import Number, Reports

if TYPE_CHECKING:
    import logging

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_STOP_CHECK_S = 0.1
"""How long at most a sleeping task does not notice that it must stop."""
_entered: list[Context] = []
in_this_thread: ContextVar[Context | None] = ContextVar("stayer_task", default=None)
"""Where a process runs many tasks: that of the thread, or of the coroutine."""


def current_task() -> Context | None:
    """Return the task that this process (or thread, or coroutine) runs or is a part of;
    else None.
    """
    if (own := in_this_thread.get()) is not None:
        return own
    if not _entered:
        folder = os.environ.get("STAYER_DIR")
        if not folder or not os.path.exists(os.path.join(folder, "task.json")):
            return None
        Context.from_environment().__enter__()
    return _entered[-1]


class Context:
    """The running task, seen from inside."""

    def __init__(self, task: Task, folder: Path, report: str, checkpoint: str, result: str) -> None:
        self.record = task
        """The task as it was when this attempt began."""
        self.folder = folder
        """The part of the run directory that this attempt has."""
        self.result_path = result
        self._report_path = report
        self._reports = Reports(report)
        self._checkpoints = Checkpoints(checkpoint)
        self._steps_done: set[str] = set()
        self._phase: TimedStep | None = None
        self._cancelled = False
        self._stop_by: Callable[[], object] | None = None

    @classmethod
    def from_environment(cls) -> Self:
        """Return the task that the worker's variables tell of; BadInput if there is none."""
        folder = os.environ.get("STAYER_DIR")
        if not folder:
            raise BadInput("this is no task: STAYER_DIR, which a worker sets, is not set here")
        path = Path(folder)
        try:
            task = record.read((path / "task.json").read_bytes())
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}/task.json can't be read: {error}") from None
        files = (
            os.environ.get(f"STAYER_{name.upper()}") or str(path / name)
            for name in ("report", "checkpoint", "result")
        )
        return cls(task, path, *files)

    @classmethod
    def for_test(
        cls,
        parameters: Value = None,
        *,
        id: str = "test",
        queue: str = "test",
        name: str | None = None,
        attempt: int = 1,
        folder: str | Path | None = None,
        inputs: dict[str, Any] | None = None,
    ) -> Self:
        """Make a context without a worker. It writes to `folder`, by default one that goes when the
        context does; that of another context makes this one the next attempt.
        """
        task = Task(id=id, queue=queue, name=name, parameters=parameters, attempt=attempt)
        made = cls.detached(task, folder)
        made.__dict__["inputs"] = inputs or {}
        return made

    @classmethod
    def detached(cls, task: Task, folder: str | Path | None = None) -> Self:
        """Return a context whose reports nobody reads."""
        if folder is not None:
            path = Path(folder)
        else:
            import tempfile

            path = Path(tempfile.mkdtemp(prefix="stayer-"))
        files = (str(path / name) for name in ("report", "checkpoint", "result"))
        made = cls(task, path, *files)
        if folder is None:
            import shutil
            import weakref

            weakref.finalize(made, shutil.rmtree, path, ignore_errors=True)
        return made

    def __repr__(self) -> str:
        return f"<Context of task {self.id}, attempt {self.attempt}>"

    def __enter__(self) -> Self:
        """Be what `current_task` finds."""
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        self._end_phase()
        self._reports.flush()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def queue(self) -> str:
        return self.record.queue

    @property
    def name(self) -> str | None:
        """What it runs, if that is a function."""
        return self.record.name

    @property
    def parameters(self) -> Any:
        """What it is to work on: a JSON value, or bytes."""
        return self.record.parameters

    @functools.cached_property
    def inputs(self) -> dict[str, Any]:
        """The results of what it runs after: by their names in the flow, else by their ids. A map's
        are a list.
        """
        return record.inputs(os.environ.get("STAYER_INPUTS") or self.folder / "inputs")

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.record.attempt

    @functools.cached_property
    def log(self) -> logging.Logger:
        """Writes to the task's log, with the time; if the program has set up logging, as it has."""
        import logging

        logger = logging.getLogger("stayer.task")
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        return logger

    def progress(
        self,
        done: Number | None = None,
        total: Number | None = None,
        message: str | None = None,
    ) -> None:
        """Say how far it is: `progress(40, 100, "encoding")`. From any thread, as often as you
        like: ten lines a second are written at most, and the last one always.
        """
        self._reports.add(done, total, message)

    @property
    def meta(self) -> dict[str, JSON]:
        """The fields of your own that it was submitted with, and those that it has set since."""
        return dict(self.__dict__.get("_meta", self.record.meta) or {})

    def set_meta(self, /, **fields: JSON) -> None:
        """Set fields of your own, to find it by: `set_meta(team="vision")`. Others stay as they
        are; None takes one away. Raises BadInput for what JSON can't say, TooLarge over 4 KB.
        """
        from stayer.core import meta

        wanted = meta.check_names("meta", fields)
        self.__dict__["_meta"] = meta.merge(self.meta, wanted)
        self._send_meta(wanted)

    def _send_meta(self, fields: dict[str, JSON]) -> None:
        reports.write_meta(self._report_path, fields)

    def metric(self, name: str, value: Number, x: Number | None = None) -> None:
        """Report a value that changes over time, such as a loss: `metric("loss", 0.31)`. It is
        drawn over time, and over `x` if you give one, such as the number of the epoch. From any
        thread, as often as you like: what is kept of a series stays small.
        """
        self._add_metric(checked_name("metric", name), as_number(name, value), x)

    def _add_metric(self, name: str, value: Number, x: Number | None) -> None:
        self._reports.add_metric(name, value, x)

    def track(
        self,
        items: Iterable[T],
        total: Number | None = None,
        message: str | None = None,
        start: int = 0,
    ) -> Iterator[T]:
        """Yield the items, and report after each; `start` says how many were done before."""
        if total is None:
            hint = length_hint(items, -1)
            total = None if hint < 0 else start + hint
        self.progress(start, total, message)
        for number, item in enumerate(items, start + 1):
            yield item
            self.progress(number, total, message)

    def checkpoint(self, state: object) -> None:
        """Save a state for the next attempt, should there be one: a JSON value, or bytes; on disk
        when this returns (in a thread: on its way to the store). Raises BadInput for what JSON
        can't say, TooLarge over 16 MB.
        """
        self._checkpoints.save(state)

    def restore(self, default: object = None) -> Any:
        """Return the state that was saved last, by this attempt or one before; else the default."""
        state = self._checkpoints.state()
        return default if state is UNSET else state

    def set_result(self, value: object) -> None:
        """Set the result of the task, for a program that has no function to return it from: a JSON
        value, or bytes. The last one counts; None takes it back. What a function returns comes
        last, unless that is None. Raises BadInput for what JSON can't say, TooLarge over 1 MB.
        """
        from stayer.task import atomic_files
        from stayer.task.results import encode_result

        data = encode_result(value)
        if data is not None:
            atomic_files.replace(self.result_path, data)
        elif os.path.exists(self.result_path):
            os.remove(self.result_path)

    @overload
    def step(self, name: str, /) -> TimedStep: ...
    @overload
    def step(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    def step(self, name: str, function: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        """Say what it does now: `with task.step("load"):` for what is in the block, or without
        `with`, until the next such step or the end. How long each took is shown with the task.

        With a function, call that, once in the life of the task: the next attempt gets what this
        one got. What comes out is kept as JSON (or bytes), and is what JSON makes of it.
        """
        if function is None:
            return TimedStep(self, checked_name("step", name))
        with TimedStep(self, checked_name("step", name), nested=True):
            return self._call_once(name, function, *args, **kwargs)

    def _call_once(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        if name in self._steps_done:
            raise BadInput(
                f"step {name!r} was done before in this attempt: a name stands for one result, "
                f'so give each step its own, such as f"{name} {{number}}"'
            )
        self._steps_done.add(name)
        known = self._checkpoints.steps()
        if name in known:
            return cast(R, known[name])
        try:
            result = function(*args, **kwargs)
        except BaseException:
            self._steps_done.discard(name)
            raise
        try:
            return cast(R, self._checkpoints.save_step(name, result))
        except BadInput as error:
            # The work is done: to fail now would waste it.
            self.log.warning("%s. The step will be done again in a next attempt", error)
            return result

    def _begin_step(self, name: str) -> None:
        self._reports.begin_step(name)

    def _end_step(self, name: str, elapsed: float) -> None:
        self._reports.end_step(name, elapsed)

    def _end_phase(self) -> None:
        """End the step that lasts until the next one begins."""
        if self._phase is not None:
            self._phase.end()

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to stop, be it cancelled, over a limit, or moved elsewhere."""
        return self._cancelled

    def on_stop(self, function: Callable[[], object] | None) -> Callable[[], object] | None:
        """Return when asked to stop, call this (once, in the main thread; with `--threads` in one
        of its own) instead of raising `Stopped` there; None to raise it again. Returns what was
        there before. A function that does nothing leaves it to you to look at `cancelled`.
        """
        before, self._stop_by = self._stop_by, function
        return before

    def request_stop(self) -> Callable[[], object] | None:
        """Note that it must stop; what `on_stop` was given. For the runner, which calls it on
        SIGTERM, and for tests.
        """
        # Takes no lock: a signal's handler runs this, and its thread might hold it.
        self._cancelled = True
        return self._stop_by

    def sleep(self, seconds: float) -> bool:
        """Sleep, but no longer than until it must stop; whether it may go on."""
        end = time.monotonic() + seconds
        while not self._cancelled and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _STOP_CHECK_S))
        return not self._cancelled


class TimedStep:
    """A named part of the work, from when this is made until the next one is, or until the end of
    its `with` block.
    """

    def __init__(self, context: Context, name: str, *, nested: bool = False) -> None:
        self.name = name
        self._context = context
        self._began = time.monotonic()
        self._has_ended = False
        if not nested:
            context._end_phase()
            context._phase = self
        context._begin_step(name)

    def __enter__(self) -> Self:
        if self._context._phase is self:
            self._context._phase = None  # others may begin and end within it
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End it, if that has not been done."""
        if self._context._phase is self:
            self._context._phase = None
        if not self._has_ended:
            self._has_ended = True
            self._context._end_step(self.name, time.monotonic() - self._began)


def checked_name(what: str, name: str) -> str:
    """Return the name of a metric or step as it is kept; BadInput if there is nothing left."""
    if not isinstance(name, str) or not (short := short_name(name)):
        raise BadInput(f'a {what} needs a name, such as {what}("load"), not {name!r}')
    return short


def as_number(name: str, value: Number) -> Number:
    """Return the value of a metric; BadInput if it is no number."""
    if isinstance(value, str | bytes) or not hasattr(type(value), "__float__"):
        raise BadInput(f"metric {name!r}: give a number, not {value!r}")
    return value
