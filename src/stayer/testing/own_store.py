"""A store of its own for a test: what was submitted, and running it here and now."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from stayer import config
from stayer.app import App, Binding, TaskFunction, living_apps
from stayer.client import Client, TaskHandle
from stayer.client.handle import as_stored
from stayer.client.values import Duration, Moment, seconds
from stayer.core.errors import TaskFailed
from stayer.core.flows.model import NewFlow
from stayer.core.model import Event, NewTask, Submitted, Value
from stayer.core.schedules import parse
from stayer.service.control import schedules
from stayer.stores.sql.sqlite.memory import MemoryStore, discard, open_database, share
from stayer.testing.clock import Clock
from stayer.testing.runner import Runner

ATTEMPTS_LIMIT = 1000
"""After so many attempts in one call, tasks seem to go on for ever."""
_STORE_VARIABLE = config.SETTINGS["store"].variable


class WatchedStore(MemoryStore):
    """A store in memory that runs what it is given: at once in inline mode, else when somebody
    waits for it.
    """

    test: TestStore | None = None
    _inline = False

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept tasks; in inline mode, run them."""
        answers = super().submit(tasks)
        if not self._inline or self.test is None:
            return answers
        self.test._run_inline()
        current = self.get([answer.task.id for answer in answers])
        return [
            answer if task is None else Submitted(task=task, fresh=answer.fresh)
            for answer, task in zip(answers, current, strict=True)
        ]

    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        """Accept a flow; in inline mode, run it."""
        fresh = super().submit_flow(flow, tasks)
        if self._inline and self.test is not None:
            self.test._run_inline()
        return fresh

    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        """Give events. If there are none, whoever waits would wait for ever: nobody else runs what
        is there, so it is run now.
        """
        events = super().watch(since, 0, limit)
        if events or self.test is None or self.test._is_anybody_else_working():
            return events or super().watch(since, timeout, limit)
        if not self.test.drain(check=False):
            raise AssertionError(
                "a test waits for a task that nothing will end: it is delayed or held (move the "
                "clock, or drain(within=…)), or no app that is bound here has its function"
            )
        return super().watch(since, 0, limit)


class TestStore:
    """A store in memory for one test, with a clock that stands still.

    The apps that it is given submit here until it is closed; without any, all apps that there are.
    As a context manager it is also what the settings name: `Client()` is one of this store.
    """

    __test__ = False

    def __init__(self, *apps: App, now: Moment | None = None, inline: bool = False) -> None:
        self.url = f"memory:test-{uuid4().hex}"
        self.clock = Clock(now)
        """The time of the store."""
        self.store = WatchedStore(self.url, open_database(self.url, self.clock))
        self.store.setup()
        share(self.url, self.store)
        self.store.test = self
        self.store._inline = inline
        self.client = Client._over(self.store)
        """A client of this store."""
        self._folder = Path(tempfile.mkdtemp(prefix="stayer-test-"))
        self._apps: list[App] = []
        self._bindings: list[Binding] = []
        self._runner = Runner(self.client, self.clock, self._folder)
        self._variable = os.environ.get(_STORE_VARIABLE)
        self._takes_all = not apps
        self.bind(*(apps or living_apps()))

    def __repr__(self) -> str:
        return f"<TestStore at {self.clock.datetime.isoformat(timespec='seconds')}>"

    def __enter__(self) -> Self:
        os.environ[_STORE_VARIABLE] = self.url
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the apps back their stores, and forget all that is here."""
        if os.environ.get(_STORE_VARIABLE) == self.url:
            if self._variable is None:
                del os.environ[_STORE_VARIABLE]
            else:
                os.environ[_STORE_VARIABLE] = self._variable
        for binding in reversed(self._bindings):
            binding.undo()
        self._bindings.clear()
        self.client.close()
        discard(self.url)
        shutil.rmtree(self._folder, ignore_errors=True)

    def bind(self, *apps: App) -> None:
        """Let these apps submit here, and their functions and schedules run here."""
        for app in apps:
            if app in self._apps:
                continue
            self._bindings.append(app.bind(self.client))
            self._apps.append(app)
            self._runner.add(app)
            for written in app.schedules:
                schedules.add(self.store, parse.parse(written, "a schedule of the app", {}))

    def _bind_new(self) -> None:
        """Bind apps that were made since, by a module that the test has imported."""
        if self._takes_all:
            self.bind(*living_apps())

    # Running

    @property
    def inline(self) -> bool:
        """Whether a task runs as soon as it is submitted, before `submit` returns."""
        return self.store._inline

    @inline.setter
    def inline(self, value: bool) -> None:
        self.store._inline = value

    def drain(
        self,
        *,
        within: Duration | None = None,
        retries: bool = True,
        commands: bool = False,
        check: bool = True,
        limit: int = ATTEMPTS_LIMIT,
    ) -> list[TaskHandle[Value]]:
        """Run what was submitted, here and now, in the order in which a worker would take it, and
        what comes of it; give each attempt, as it was when it ended.

        Delayed tasks and schedules wait until the clock is moved to their time; `within` moves it
        so far forward, and runs what comes due on the way, at its time. The waits of retries are
        skipped: the clock moves over them, unless `retries` is False.

        Functions of bound apps are run, `commands` only if you say so; other tasks stay.

        Raises TaskFailed, at the end, if a task failed for good, unless `check` is False.
        """
        self._bind_new()
        end = None if within is None else self.clock() + seconds(within)
        ran: list[TaskHandle[Value]] = []
        for task in self._runner.run_all(end, over_retries=retries, commands=commands):
            ran.append(TaskHandle(self.store, task, as_stored))
            if len(ran) >= limit:
                raise AssertionError(
                    f"{limit} attempts were run, and there is more: does a task submit itself, or "
                    f"snooze, for ever? The last one was {task.id} of {task.kind or task.queue}"
                )
        if check:
            self._raise_failure(ran)
        return ran

    def _raise_failure(self, ran: Sequence[TaskHandle[Value]]) -> None:
        failed = [task for task in ran if task.state == "failed"]
        if not failed:
            return
        error = TaskFailed(failed[0].id, failed[0].error)
        if len(failed) > 1:
            error.add_note(f"and {len(failed) - 1} more failed")
        error.add_note("drain(check=False) leaves that to you")
        raise error from self._runner.raised.get(failed[0].id)

    def _run_inline(self) -> None:
        """Run what is due: called by the store when it was given something."""
        self._bind_new()
        for _ in self._runner.run_all(None, over_retries=True, commands=False):
            pass

    def _is_anybody_else_working(self) -> bool:
        return self._runner.is_busy or any(
            worker.id != self._runner.worker.id for worker in self.store.workers()
        )

    # What was submitted

    def submitted(
        self,
        task: TaskFunction[..., Any] | str | None = None,
        parameters: Mapping[str, Any] | Value = None,
        **fields: Any,
    ) -> list[TaskHandle[Value]]:
        """List what was submitted, oldest first: of this function (or name), with these parameters
        among its own, and with these fields: `queue="mail"`, `priority=3`, `state="pending"`.
        """
        name = task.name if isinstance(task, TaskFunction) else task
        wanted = {} if name is None else {"name": name}
        return [
            each
            for each in reversed(list(self.client.find()))
            if _has(each, wanted | fields) and _includes(each.parameters, parameters)
        ]

    def assert_submitted(
        self,
        task: TaskFunction[..., Any] | str | None = None,
        parameters: Mapping[str, Any] | Value = None,
        *,
        times: int | None = None,
        **fields: Any,
    ) -> list[TaskHandle[Value]]:
        """Assert that such a task was submitted (see `submitted`), at least once or just so many
        `times`; give them.
        """
        found = self.submitted(task, parameters, **fields)
        if len(found) == times or (times is None and found):
            return found
        wanted = task.name if isinstance(task, TaskFunction) else task or "a task"
        also = {"parameters": parameters} if parameters is not None else {}
        said = ", ".join(f"{name}={value!r}" for name, value in {**also, **fields}.items())
        number = "never" if not found else f"{len(found)} times"
        often = "" if times is None else f", not {times} times"
        raise AssertionError(
            f"{wanted}{f' with {said}' if said else ''} was submitted {number}{often}. "
            f"{self._describe()}"
        )

    def assert_nothing_submitted(
        self, task: TaskFunction[..., Any] | str | None = None, **fields: Any
    ) -> None:
        """Assert that no such task was submitted (see `submitted`)."""
        self.assert_submitted(task, times=0, **fields)

    def _describe(self) -> str:
        everything = self.submitted()
        if not everything:
            return "Nothing was"
        lines = (
            f"  {each.kind or 'a task'} {each.parameters!r} in queue {each.queue}: {each.state}"
            for each in everything
        )
        return "What was:\n" + "\n".join(lines)


@contextmanager
def store(*apps: App, now: Moment | None = None, inline: bool = False) -> Iterator[TestStore]:
    """Give a test a store of its own: see `TestStore`."""
    with TestStore(*apps, now=now, inline=inline) as made:
        yield made


def _has(task: TaskHandle[Value], fields: Mapping[str, Any]) -> bool:
    for name, value in fields.items():
        there = getattr(task, name)
        if list(there) != list(value) if isinstance(there, tuple) else there != value:
            return False
    return True


def _includes(there: Value, wanted: Mapping[str, Any] | Value) -> bool:
    if wanted is None:
        return True
    if isinstance(there, dict) and isinstance(wanted, Mapping):
        return all(name in there and there[name] == value for name, value in wanted.items())
    return there == wanted
