"""Functions of an app, submitted from an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stayer import App, Context, TaskFailed, TaskHandle, aio, current_task
from stayer.testing import TestStore

app = App()


@app.task(name="double")
async def double(number: int) -> int:
    return 2 * number


@app.task(name="broken")
def broken() -> None:
    raise ValueError("no")


def test_functions_are_submitted_and_awaited(stayer_store: TestStore) -> None:
    async def main() -> None:
        one = await double.asubmit(3)
        assert isinstance(one, aio.TaskHandle)
        many = await double.asubmit_many([{"number": 1}, {"number": 2}], ids=["a", "b"])
        assert await one.wait() == 6
        assert [await each.wait() for each in many] == [2, 4]
        assert (await double.aget_task("b")).result == 4
        with pytest.raises(TypeError):
            await double.asubmit("three")  # type: ignore[arg-type]
        with pytest.raises(TaskFailed, match="no"):
            await (await broken.asubmit()).wait()

    asyncio.run(main())
    assert len(stayer_store.submitted(double)) == 3


def test_the_loop_goes_on_while_the_store_is_slow(
    stayer_store: TestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    ticked = threading.Event()
    submit = stayer_store.store.submit

    def slow_submit(tasks):
        assert ticked.wait(60)
        return submit(tasks)

    monkeypatch.setattr(stayer_store.store, "submit", slow_submit)

    async def main() -> None:
        submitting = asyncio.create_task(double.asubmit(1))
        await asyncio.sleep(0)
        ticked.set()
        await submitting

    asyncio.run(main())
    stayer_store.assert_submitted(double, times=1)


@app.task(name="own_loop")
def own_loop(task: Context) -> str:
    asyncio.run(asyncio.sleep(0))
    assert current_task() is task
    return task.id


def test_tasks_run_where_a_loop_runs(stayer_store: TestStore) -> None:
    """As in an async test, or in a handler of an application that is under test."""

    async def main() -> list[TaskHandle[Any]]:
        tasks: list[TaskHandle[Any]] = [double.submit(3), own_loop.submit()]
        stayer_store.drain()
        stayer_store.inline = True
        return [each.refresh() for each in tasks] + [double.submit(4), own_loop.submit()]

    found = asyncio.run(main())
    assert [each.result for each in found] == [6, found[1].id, 8, found[3].id]


def test_what_a_task_raises_where_a_loop_runs_is_told(stayer_store: TestStore) -> None:
    async def main() -> None:
        broken.submit()
        stayer_store.drain()

    with pytest.raises(TaskFailed, match="no") as raised:
        asyncio.run(main())
    assert isinstance(raised.value.__cause__, ValueError)
