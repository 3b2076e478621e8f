"""Metrics and steps, as a task reports them and as a worker reads them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from stayer import Context
from stayer.core.errors import BadInput
from stayer.core.insight.statistics import Recorder
from stayer.core.model import Statistics


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "report").read_text().splitlines()]


def read(folder: Path) -> Statistics:
    recorder = Recorder()
    for line in lines(folder):
        recorder.take(line, 1e9, line["at"])
    return recorder.result()


def test_values_are_written_with_what_they_are_for(tmp_path: Path) -> None:
    with Context.for_test(folder=tmp_path) as task:
        for epoch in range(5):
            task.metric("loss", 1 / (epoch + 1), x=epoch)
        task.metric("speed", math.nan)
    found = read(tmp_path).metrics
    assert [point[1:] for point in found["loss"].points] == [(n, 1 / (n + 1)) for n in range(5)]
    assert (found["speed"].last, found["speed"].count) == (None, 1)


def test_of_very_many_values_few_lines_are_written_and_none_is_lost(tmp_path: Path) -> None:
    with Context.for_test(folder=tmp_path) as task:
        for number in range(20_000):
            task.metric("n", number)
    assert len(lines(tmp_path)) < 2000
    found = read(tmp_path).metrics["n"]
    assert (found.count, found.min, found.max, found.last) == (20_000, 0, 19_999, 19_999)


def test_steps_are_timed_also_nested_and_without_with(tmp_path: Path) -> None:
    with Context.for_test(folder=tmp_path) as task:
        task.step("load")
        with task.step("train"):
            for _ in range(500):
                with task.step("batch"):
                    pass
        task.step("save")
    steps = {step.name: step for step in read(tmp_path).steps}
    assert set(steps) == {"load", "batch", "train", "save"}
    assert steps["batch"].count == 500
    assert all(step.end is not None for step in steps.values())
    assert steps["train"].elapsed >= steps["batch"].elapsed > 0
    assert len(lines(tmp_path)) < 500


def test_a_step_with_a_function_is_timed_too(tmp_path: Path) -> None:
    with Context.for_test(folder=tmp_path) as task:
        assert task.step("count", len, [1, 2]) == 2
    [step] = read(tmp_path).steps
    assert (step.name, step.count) == ("count", 1)


def test_a_step_ends_with_its_block_whatever_comes_out_of_that(tmp_path: Path) -> None:
    with (
        Context.for_test(folder=tmp_path) as task,
        pytest.raises(ZeroDivisionError),
        task.step("load"),
    ):
        raise ZeroDivisionError
    assert read(tmp_path).steps[0].end is not None


@pytest.mark.parametrize("name", ["", " \n", 3])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: Any) -> None:
    task = Context.for_test(folder=tmp_path)
    for report in (lambda: task.metric(name, 1), lambda: task.step(name)):
        with pytest.raises(BadInput, match="needs a name"):
            report()


@pytest.mark.parametrize("value", ["3", None, [1]])
def test_what_is_no_number_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(BadInput, match="give a number"):
        Context.for_test(folder=tmp_path).metric("loss", value)
