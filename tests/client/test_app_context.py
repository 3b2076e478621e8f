"""App: functions that are given the running task, asynchronous ones, and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, assert_type

import pytest

from stayer import App, BadInput, Client, Context, Task, TaskHandle, current_task


@pytest.fixture
def app(client: Client) -> App:
    return App(client)


def test_the_context_is_not_submitted(app: App) -> None:
    @app.task
    def train(task: Context, epochs: int, rate: float = 0.1) -> str:
        return f"{task.id} {epochs} {rate}"

    task = train.submit(3, rate=0.5)
    assert_type(task, TaskHandle[str])
    assert task.parameters == {"epochs": 3, "rate": 0.5}
    assert app.call(task.record) == f"{task.id} 3 0.5"
    assert app.call(task) == f"{task.id} 3 0.5"
    with pytest.raises(TypeError, match="train"):
        train.submit(Context.for_test(), 3)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no parameter 'task'"):
        app.call(Task(id="x", queue="q", name=train.name, parameters={"task": 1, "epochs": 1}))


def test_the_context_may_stand_anywhere_and_be_optional(app: App) -> None:
    @app.task(name="train")
    def train(epochs: int, *, task: Context | None = None) -> int:
        assert task is not None
        return epochs + task.attempt

    assert train.submit(3).parameters == {"epochs": 3}
    context = Context.for_test({"epochs": 3}, name="train", attempt=2)
    assert app.call(context) == 5


def test_a_direct_call_gets_the_current_task_or_one_of_its_own(app: App) -> None:
    @app.task
    def tell(task: Context, n: int) -> tuple[str, int]:
        return task.id, n

    assert tell(1) == ("test", 1)
    with Context.for_test(id="outer"):
        assert tell(n=2) == ("outer", 2)
    given: Any = Context.for_test(id="given")
    assert tell(given, 3) == ("given", 3)  # type: ignore[call-arg]
    assert tell(n=4, task=given) == ("given", 4)  # type: ignore[call-arg]


def test_a_function_may_be_asynchronous(app: App) -> None:
    @app.task
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    @app.task(name="tell")
    async def tell(task: Context, n: int) -> int:
        await asyncio.sleep(0)
        return task.attempt + n

    assert_type(double.submit(1), TaskHandle[int])
    call = assert_type(double(4), Coroutine[Any, Any, int])
    assert asyncio.run(call) == 8
    assert app.call(double.submit(4)) == 8
    assert app.call(tell.submit(4)) == 4
    assert app.call(Context.for_test({"n": 4}, name="tell")) == 5
    assert asyncio.run(tell(1)) == 2


def test_hooks_surround_each_call_and_get_the_task(app: App) -> None:
    seen: list[str] = []

    @app.before
    def connect(task: Context) -> None:
        seen.append(f"before {task.id}")

    @app.after
    def disconnect(task: Context) -> None:
        seen.append(f"after {task.id}")

    @app.task(name="divide")
    def divide(n: int) -> float:
        seen.append("call")
        return 1 / n

    with pytest.raises(ZeroDivisionError):
        app.call(Task(id="x", queue="q", name="divide", parameters={"n": 0}))
    assert seen == ["before x", "call", "after x"]


def test_a_task_that_was_not_begun_has_no_end(app: App) -> None:
    @app.before
    def connect(task: Context) -> None:
        raise ConnectionError("no database")

    @app.after
    def disconnect(task: Context) -> None:
        raise AssertionError

    @app.task(name="work")
    def work() -> None: ...

    with pytest.raises(ConnectionError):
        app.call(Task(id="x", queue="q", name="work"))


def test_calling_leaves_no_current_task_behind(app: App) -> None:
    @app.task
    def tell(task: Context) -> int:
        return task.attempt

    tell()
    assert current_task() is None
