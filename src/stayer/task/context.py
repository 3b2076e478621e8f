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
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from msgspec import UNSET

from stayer.core.errors import BadInput
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

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, once in the life of the task: the next attempt gets what this one
        got. What comes out is kept as JSON (or bytes), and is what JSON makes of it.
        """
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
