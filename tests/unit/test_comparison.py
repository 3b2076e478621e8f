"""Tasks side by side."""

from __future__ import annotations

import pytest

from stayer.core.errors import BadInput
from stayer.core.insight.comparison import MOST_ROWS, compare, record
from stayer.core.insight.statistics import Recorder, latest_values
from stayer.core.model import JSON, Statistics, Task, Usage


def ran(id: str, lr: float, loss: float, result: JSON = None) -> tuple[Task, Statistics]:
    recorder = Recorder()
    recorder.add("loss", loss + 1, 0.0)
    recorder.add("loss", loss, 1.0)
    recorder.begin("train", 2.0)
    own = recorder.result()
    task = Task(
        id=id, queue="q", state="complete", attempt=1, created=100.0, started_at=110.0,
        finished_at=120.0, parameters={"lr": lr, "seed": 1}, result=result,
        usage=Usage(cpu=3.0, peak=1000), metrics=latest_values(own),
    )  # fmt: skip
    return task, own


def test_only_rows_that_differ_are_left() -> None:
    (one, own), (other, others) = ran("a", 0.1, 0.5, {"n": 1}), ran("b", 0.2, 0.25, {"n": 1})
    found = compare([one, other], {"a": own, "b": others}, now=500.0)
    rows = {row.name: row.values for row in found.rows}
    assert rows["parameters.seed"] == (1, 1)
    assert rows["ran"] == (10.0, 10.0)
    assert rows["steps.train"] == (8.0, 8.0)
    assert {row.name: row.values for row in found.differing().rows} == {
        "parameters.lr": (0.1, 0.2),
        "metrics.loss.last": (0.5, 0.25),
        "metrics.loss.min": (0.5, 0.25),
        "metrics.loss.max": (1.5, 1.25),
    }


def test_what_one_has_not_is_none_and_differs() -> None:
    (one, own), waiting = ran("a", 0.1, 0.5, 3), Task(id="b", queue="q", parameters=[1])
    found = compare([one, waiting], {"a": own}, now=500.0).differing()
    rows = {row.name: row.values for row in found.rows}
    assert rows["state"] == ("complete", "pending")
    assert rows["parameters"] == (None, [1])
    assert rows["result"] == (3, None)
    assert rows["ran"] == (10.0, None)


def test_parameters_come_before_metrics_and_results_last() -> None:
    task, own = ran("a", 0.1, 0.5, {"n": 1})
    names = [row.name for row in compare([task], {"a": own}, now=0.0).rows]
    places = [
        names.index(name) for name in ("state", "parameters.lr", "ran", "steps.train",
                                       "metrics.loss.last", "result.n")
    ]  # fmt: skip
    assert places == sorted(places)


def test_json_says_which_rows_differ() -> None:
    task, own = ran("a", 0.1, 0.5)
    shown = record(compare([task, Task(id="b", queue="q")], {"a": own}, now=0.0))
    assert shown["ids"] == ["a", "b"]
    assert {"name": "queue", "values": ["q", "q"], "differs": False} in shown["rows"]  # type: ignore[operator]


def test_more_names_than_a_table_has_rows_are_not_compared() -> None:
    tasks = [
        Task(id=f"{n}", queue="q", parameters={f"{n}.{each}": 0 for each in range(MOST_ROWS)})
        for n in range(2)
    ]
    with pytest.raises(BadInput, match="different parameters"):
        compare(tasks, {}, now=0.0)
