"""Rehearsals: a task that goes on as it should passes, and each way not to is found."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from stayer import App, BadInput, Context
from stayer.testing import rehearse

app = App("memory:")


@app.task(name="sums")
def sums(task: Context, numbers: list[int]) -> int:
    state = task.restore({"at": 0, "sum": 0})
    while state["at"] < len(numbers):
        state = {"at": state["at"] + 1, "sum": state["sum"] + numbers[state["at"]]}
        task.checkpoint(state)
    return int(state["sum"])


@app.task(name="forgets")
def forgets(task: Context) -> int:
    """Counts what it did before its checkpoint twice."""
    total = task.restore(0)
    for number in range(3):
        total += number
        task.checkpoint(total)
    return int(total)


@app.task(name="restarts")
def restarts(task: Context, path: str) -> int:
    with open(path, "a") as file:
        file.write("x")
    for number in range(3):
        task.checkpoint(number)
    return 3


@app.task(name="steps")
def steps(task: Context) -> list[int]:
    return [task.step(f"step {number}", lambda number=number: number * 2) for number in range(3)]  # type: ignore[call-overload]


def stumbles(task: Context) -> None:
    if task.restore() is not None:
        raise RuntimeError("what is this checkpoint?")
    task.checkpoint(1)


def test_one_that_goes_on_passes() -> None:
    done = rehearse(sums, {"numbers": [1, 2, 3, 4]}, random=2)
    assert done.checkpoints == 4
    assert {run.result for run in done.runs} == {10}
    assert len(done.runs) == 1 + 4 + 1 + 2
    assert [run.attempts for run in done.runs][:6] == [1, 2, 2, 2, 2, 5]
    assert rehearse(steps, random=0).runs[-1].result == [0, 2, 4]


def test_one_that_counts_twice_is_found() -> None:
    with pytest.raises(AssertionError, match=r"after checkpoint 2: the result is 4, not 3"):
        rehearse(forgets, random=0)


def test_one_that_never_gets_further_is_found(tmp_path: Path) -> None:
    done = rehearse(restarts, {"path": str(tmp_path / "log")}, random=0, check=False)
    assert ["never got further" in problem for problem in done.problems] == [True]


def test_one_that_can_not_read_its_checkpoint_is_found() -> None:
    with pytest.raises(AssertionError, match="RuntimeError: what is this checkpoint"):
        rehearse(stumbles, random=0)


def test_one_that_fails_anyway_is_not_disturbed() -> None:
    def broken(task: Context) -> None:
        raise KeyError("x")

    with pytest.raises(BadInput, match="fails even if nobody disturbs it: KeyError"):
        rehearse(broken)


def test_results_are_compared_as_one_says() -> None:
    def process(task: Context) -> int:
        task.checkpoint(1)
        return os.getpid()

    assert rehearse(process, random=0, check=False).problems
    assert not rehearse(process, random=0, compare=lambda one, other: True).problems


def test_files_are_compared(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = rehearse(restarts, {"path": str(log)}, random=0, points=1, files=[log], check=False)
    assert any("is another one" in problem for problem in done.problems)


def test_of_many_checkpoints_some_are_chosen() -> None:
    done = rehearse(sums, {"numbers": list(range(30))}, points=3, random=0)
    assert [run.plan for run in done.runs][1:-1] == [
        "after checkpoint 1", "after checkpoint 15", "after checkpoint 30",
    ]  # fmt: skip


GOOD = """
import sys, stayer
task = stayer.current_task()
for number in range(task.restore(0), 3):
    task.checkpoint(number + 1)
    print(number, flush=True)
    if task.attempt == 1:
        sys.stdin.read(1)
    import time; time.sleep(0.02)
task.set_result(3)
"""


def test_a_command_is_killed_after_its_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(GOOD)
    done = rehearse([sys.executable, str(tmp_path / "work.py")], random=0, points=1)
    assert done.checkpoints >= 1
    assert {json.dumps(run.result) for run in done.runs} == {"3"}
    assert all(run.attempts > 1 for run in done.runs[1:])


def test_a_command_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BadInput, match="can't be started"):
        rehearse(["/no/such/program"])
    with pytest.raises(BadInput, match="a list of words"):
        rehearse("sleep 1")
