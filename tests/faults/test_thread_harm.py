"""What a task in a thread does to its pool: the others must not notice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from tests.faults.fleet import until
from tests.faults.pools import PoolFleet

APP = """
import asyncio, os, sys, time
from dataclasses import dataclass
import stayer
from stayer import Context

app = stayer.App()


@dataclass(frozen=True)
class Frozen(Exception):
    number: int


class Indescribable(Exception):
    @property
    def __traceback__(self):
        raise RuntimeError("there is none")


@app.task(name="double")
def double(n: int) -> int:
    return 2 * n


@app.task(name="double_async")
async def double_async(n: int) -> int:
    return 2 * n


@app.task(name="frozen")
def frozen() -> None:
    raise Frozen(3)


@app.task(name="frozen_async")
async def frozen_async() -> None:
    raise Frozen(3)


@app.task(name="frozen_cause")
def frozen_cause() -> None:
    try:
        raise Frozen(3)
    except Frozen as error:
        raise ValueError("because") from error


@app.task(name="indescribable")
def indescribable() -> None:
    raise Indescribable("so it is")


@app.task(name="exit_aside")
async def exit_aside() -> int:
    aside = asyncio.create_task(leave())
    await asyncio.sleep(0.05)
    return 5


async def leave():
    sys.exit(3)


@app.task(name="stop_the_loop")
async def stop_the_loop() -> int:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.05)
    return 5


@app.task(name="fork")
def fork(path: str) -> str:
    if os.fork() == 0:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        return "child"
    return "parent"


@app.task(name="close_stdout")
def close_stdout() -> int:
    sys.stdout.close()
    return 1


@app.task(name="snooze")
def snooze(word: str) -> None:
    raise stayer.Snooze(float(word) if word != "soon" else word)


@app.task(name="retry")
def retry(word: str) -> None:
    raise stayer.Retry(after=float(word) if word != "soon" else word)


@app.task(name="save")
def save(task: Context, size: int) -> int:
    task.checkpoint(bytes(size))
    return size


@app.task(name="hard_to_stop")
def hard_to_stop(task: Context, path: str, how: str) -> str:
    def stop():
        if how == "exits":
            sys.exit(1)
        time.sleep(600)
    task.on_stop(stop)
    open(path, "w").close()
    while not task.cancelled:
        time.sleep(0.01)
    return "partial"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[PoolFleet]:
    fleet = PoolFleet(tmp_path)
    (tmp_path / "jobs.py").write_text(APP)
    yield fleet
    fleet.close()


@pytest.mark.parametrize(
    ("name", "type", "message"),
    [
        ("frozen", "jobs.Frozen", "3"),
        ("frozen_async", "jobs.Frozen", "3"),
        ("frozen_cause", "ValueError", "because"),
        ("indescribable", "Indescribable", "can't be described"),
    ],
)
def test_whatever_it_raises_its_thread_goes_on(
    fleet: PoolFleet, name: str, type: str, message: str
) -> None:
    fleet.pool_worker(threads=1)
    fleet.call("a", name)
    error = fleet.until_ended("a").error
    assert error is not None
    assert error.type == type
    assert message in error.message
    fleet.call("b", "double", n=1)
    assert fleet.until_ended("b").result == 2


@pytest.mark.parametrize("name", ["exit_aside", "stop_the_loop"])
def test_one_coroutine_does_not_end_the_loop_of_the_others(fleet: PoolFleet, name: str) -> None:
    fleet.pool_worker()
    fleet.call("a", name)
    assert fleet.until_ended("a").result == 5
    fleet.call("b", "double_async", n=1)
    assert fleet.until_ended("b").result == 2
    assert fleet.endings("a") == ["done"]


def test_a_copy_that_comes_back_from_a_task_ends(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    path = fleet.folder / "copy"
    fleet.call("a", "fork", path=str(path))
    assert fleet.until_ended("a").result == "parent"
    until(lambda: path.exists() and path.read_text())

    def is_gone() -> bool:
        with suppress(FileNotFoundError):
            return Path(f"/proc/{path.read_text()}/stat").read_text().split()[2] == "Z"
        return True

    until(is_gone, "for the copy to end")


def test_a_pool_whose_output_was_closed_leaves_as_others_do(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker()
    fleet.call("a", "close_stdout")
    assert fleet.until_ended("a").state == "complete"
    os.kill(worker, 15)
    assert fleet.end_of(worker) == 0
    assert "ended by" not in fleet.log_of().read_text()


@pytest.mark.parametrize("name", ["snooze", "retry"])
@pytest.mark.parametrize("word", ["nan", "inf", "soon"])
def test_a_wait_that_is_no_number_is_a_plain_failure(
    fleet: PoolFleet, name: str, word: str
) -> None:
    fleet.pool_worker(threads=1)
    fleet.call("a", name, word=word)
    assert fleet.until_ended("a").state == "failed"
    fleet.call("b", "double", n=1)
    assert fleet.until_ended("b").result == 2


@pytest.mark.parametrize("how", ["exits", "takes for ever"])
def test_a_function_that_is_to_stop_a_task_holds_nobody_up(fleet: PoolFleet, how: str) -> None:
    fleet.pool_worker(lease=60)
    path = fleet.folder / "begun"
    fleet.call("a", "hard_to_stop", path=str(path), how=how)
    until(path.exists)
    control.cancel(fleet.store, "a")
    assert fleet.until_ended("a").state == "cancelled"
    fleet.call("b", "double", n=1)
    assert fleet.until_ended("b").result == 2
    assert "ended by" not in fleet.log_of().read_text()


def test_many_large_checkpoints_at_once_all_arrive(fleet: PoolFleet) -> None:
    fleet.pool_worker(threads=4, lease=60)
    size = 15_000_000
    ids = [fleet.call(f"task-{number}", "save", size=size) for number in range(4)]
    for task in fleet.until_all_ended(ids):
        assert (task.state, task.attempt) == ("complete", 1)
        saved = fleet.store.checkpoint(task.id)
        assert saved is not None
        assert len(saved.data) >= size
