"""Running tasks in the process of a test: reserve, call, commit, as a worker does."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from uuid import uuid4

import msgspec

from stayer.app import App
from stayer.client import Client
from stayer.client.processor import as_fault
from stayer.core import codec
from stayer.core.errors import BadInput, NotHeld, Stopped
from stayer.core.fault_text import exit_fault
from stayer.core.happenings import Done, Fail, Happening, Interrupt, Start, Stop
from stayer.core.lifecycle import read_exception
from stayer.core.model import Fault, Filter, Progress, Report, Task, Value
from stayer.core.patterns import any_matches, literal
from stayer.core.version import __version__
from stayer.core.worker_model import Handles, Worker
from stayer.service.control import tasks as control
from stayer.service.upkeep import due_work
from stayer.testing.clock import Clock
from stayer.testing.context import TestContext

_FOREVER_S = 1e9
_READ_BATCH = 500


class Runner:
    """A worker that has no process: it runs one task after the other in whoever calls it."""

    def __init__(self, client: Client, clock: Clock, folder: Path) -> None:
        self._store = client.store
        self._clock = clock
        self._folder = folder
        self._bound: list[App] = []
        self._beats = 0
        self._running = 0
        self.raised: dict[str, BaseException] = {}
        """What the last attempt at each task raised."""
        self.worker = Worker(
            id=f"test.{os.getpid()}.{uuid4().hex[:8]}",
            node="test",
            pid=os.getpid(),
            queues=(),
            version=__version__,
            lease=_FOREVER_S,
        )

    def add(self, app: App) -> None:
        """Run the functions of this app, too."""
        self._bound.append(app)

    def _app_of(self, name: str | None) -> App | None:
        """Find the app of a task; the app that was bound first has a name."""
        named = (app for app in self._bound if name in app.names)
        routed = (app for app in self._bound if name and any_matches(name, app.routes))
        return next(chain(named, routed), None)

    @property
    def is_busy(self) -> bool:
        """Whether a task runs, in whoever called this."""
        return self._running > 0

    def run_all(self, end: float | None, *, over_retries: bool, commands: bool) -> Iterator[Task]:
        """Run what there is; give each attempt when it has ended. Moves the clock to what comes due
        up to `end`, and over the waits of tasks that have run before.
        """
        while True:
            due_work.elapse(self._store)
            task = self._reserve(commands)
            if task is not None:
                yield self._run(task)
                continue
            following = self._next_moment(end, over_retries)
            if following is None:
                break
            self._clock.move_to(max(following, self._clock()))
        if end is not None and end > self._clock():
            self._clock.move_to(end)

    def _next_moment(self, end: float | None, over_retries: bool) -> float | None:
        """Return when something is due next that this run may wait for."""
        now = self._clock()
        moments = []
        if end is not None and (due := self._store.promote(0)) is not None and due <= end:
            moments.append(due)
        if over_retries:
            delayed = control.find_all(self._store, Filter(states=("scheduled",)))
            moments += [
                task.eta
                for task in delayed
                if task.attempt and task.eta is not None and self._app_of(task.name)
            ]
        later = [moment for moment in moments if moment > now]
        return min(later, default=None)

    def _reserve(self, commands: bool) -> Task | None:
        handles = Handles(
            names=tuple(
                each for app in self._bound for each in (*map(literal, app.names), *app.routes)
            ),
            programs=("*",) if commands else (),
        )
        queues = [queue.name for queue in self._store.queues()]
        if not queues:
            return None
        self._beat()
        found = self._store.reserve(self.worker.id, queues, 1, handles)
        return found[0] if found else None

    def _beat(self, *reports: Report) -> None:
        self._beats += 1
        self._store.beat(self.worker, self._beats, uuid4().hex, reports)

    def _run(self, task: Task) -> Task:
        """Run one attempt; the task as it is then."""
        task = control.settle(self._store, task, Start(os.getpid()))
        self.raised.pop(task.id, None)
        self._running += 1
        try:
            happening = self._call(task) if task.command is None else self._command(task)
        finally:
            self._running -= 1
        try:
            return control.settle(self._store, task, happening)
        except NotHeld:  # it was deleted, or given to somebody else, while it ran
            return self._store.get([task.id])[0] or task

    def _call(self, task: Task) -> Happening:
        """Run a function; what became of it."""
        context = self._context(task)
        try:
            with context:
                app = self._app_of(task.name)
                assert app is not None  # else it would not have been reserved
                value = _call(app, context)
            result = context.result if value is None else value
            codec.pack(result, "the result", codec.RESULT_LIMIT)
            return Done(result)
        except Stopped:
            wanted = (self._store.get([task.id])[0] or task).cancel_wanted
            return Stop() if wanted else Interrupt("stopped")
        except SystemExit as error:
            if error.code in (None, 0):
                return Done(context.result)
            return Fail(Fault("SystemExit", str(error), exit_code=1))
        except Exception as error:
            self.raised[task.id] = error
            return read_exception(error, as_fault(error))

    def _context(self, task: Task) -> TestContext:
        folder = self._folder_of(task)

        def send(progress: Progress | None, checkpoint: bytes | None) -> None:
            report = Report(
                id=task.id, attempt=task.attempt, progress=progress, checkpoint=checkpoint
            )
            self._beat(report)

        return TestContext(task, folder, self._store, self._clock, send)

    def _folder_of(self, task: Task) -> Path:
        folder = self._folder / f"{uuid4().hex}.{task.attempt}"
        folder.mkdir()
        return folder

    def _command(self, task: Task) -> Happening:
        """Run a command in a process, with the files that a worker gives it."""
        folder = self._folder_of(task)
        files = {name: folder / name for name in ("report", "checkpoint", "result")}
        if (kept := self._store.checkpoint(task.id)) is not None:
            files["checkpoint"].write_bytes(kept.data)
        variables = {
            "STAYER_TASK_ID": task.id,
            "STAYER_ATTEMPT": str(task.attempt),
            "STAYER_DIR": str(folder),
            **{f"STAYER_{name.upper()}": str(path) for name, path in files.items()},
        }
        given = task.parameters
        ended = subprocess.run(
            task.command or (),
            input=given if isinstance(given, bytes) else msgspec.json.encode(given),
            cwd=task.cwd,
            env={**os.environ, **(task.env or {}), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if files["checkpoint"].exists():
            saved = files["checkpoint"].read_bytes()
            self._beat(Report(id=task.id, attempt=task.attempt, checkpoint=saved))
        if ended.returncode:
            return Fail(exit_fault(ended.returncode, ended.stdout.decode(errors="replace")))
        try:
            data = files["result"].read_bytes()
        except FileNotFoundError:
            return Done()
        try:
            return Done(codec.parse(data, "the result"))
        except BadInput:
            return Done(data)


def _call(app: App, context: TestContext) -> Value:
    """Call the function of a task. A worker gives it a process, where it may run an event loop of
    its own: if one runs here, the function gets a thread without one.
    """
    if asyncio._get_running_loop() is None:
        return app.call(context)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, app.call, context).result()
