"""Grids of parameters, the tasks that they make, and the table that compares them."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.errors import BadInput, TooLarge
from stayer.core.flows import sweep
from stayer.core.flows.sweep import (
    MOST_COLUMNS,
    Run,
    compare,
    figures,
    is_sweep,
    list_unused,
    parse_values,
    plan_sweep,
    varying,
)
from stayer.core.model import JSON, Fault, Task
from stayer.core.submit.checks import new_task


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("0.1,0.01", [0.1, 0.01]),
        ("1..5", [1, 2, 3, 4, 5]),
        ("5..1", [5, 4, 3, 2, 1]),
        ("0..100..50", [0, 50, 100]),
        ("-1..1,9", [-1, 0, 1, 9]),
        ("adam, sgd", ["adam", "sgd"]),
        ('"3.10","a,b",true,null', ["3.10", "a,b", True, None]),
        ('[[1, 2], {"a": 1}]', [[1, 2], {"a": 1}]),
        ("1e-3", [0.001]),
        ("one", ["one"]),
    ],
)
def test_values_are_written_as_people_do(written: str, values: list[JSON]) -> None:
    assert parse_values(written, "-p x") == values


@pytest.mark.parametrize(
    ("written", "said"),
    [("", "at least one"), ("[]", "at least one"), ("1..5..0", "nowhere"), ("1..5..-1", "nowhere")],
)
def test_values_that_are_none_are_refused(written: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_values(written, "-p x")


def test_a_range_of_billions_is_refused_before_it_is_made() -> None:
    with pytest.raises(TooLarge):
        parse_values("1..99999999999", "-p x")


def test_every_combination_is_a_task_and_the_last_parameter_changes_fastest() -> None:
    pattern = new_task(
        queue="q", command=["train", "--lr={lr}", "{opt}", "{other}"], parameters={"base": 1}
    )
    flow, tasks = plan_sweep({"lr": [0.1, 1], "opt": ["a", "b"]}, pattern, id="s", throttle=2)

    assert [task.id for task in tasks] == [f"s.sweep.{place}" for place in range(4)]
    assert [task.command for task in tasks][1] == ("train", "--lr=0.1", "b", "{other}")
    assert tasks[2].parameters == {"base": 1, "lr": 1, "opt": "a"}
    assert [task.behind for task in tasks] == [(), (), ("s.sweep.0",), ("s.sweep.1",)]
    assert {task.flow for task in tasks} == {"s"}
    assert flow.name == "train --lr={lr} {opt} {other}"
    assert flow.parts[0].at_once == 2


def test_what_a_command_does_not_use_is_known() -> None:
    assert list_unused(["lr", "seed"], ["train", "{lr}"]) == ["seed"]
    assert list_unused(["lr"], None) == []


def test_too_many_combinations_are_refused_before_they_are_laid_out() -> None:
    pattern = new_task(queue="q", name="f")
    many: list[JSON] = list(range(1000))
    with pytest.raises(TooLarge, match="20,000"):
        plan_sweep({"a": many, "b": many, "c": many}, pattern)
    with pytest.raises(BadInput, match="at least one parameter"):
        plan_sweep({}, pattern)
    with pytest.raises(BadInput, match="parameter a"):
        plan_sweep({"a": []}, pattern)
    with pytest.raises(BadInput, match="an object"):
        plan_sweep({"a": [1]}, new_task(queue="q", name="f", parameters=[1]))


@pytest.mark.parametrize(
    ("grid", "options"),
    [
        ({"a": ["x" * 1000], "b": list(range(100))}, {"command": ["echo", "{a}" * 1000]}),
        ({"a": list(range(2000)), **{f"p{n}": ["x" * 100] for n in range(1000)}}, {}),
        ({"a": list(range(2000))}, {"parameters": {"known": "x" * 100_000}}),
    ],
)
def test_what_the_combinations_come_to_is_counted_before_they_are_made(
    grid: dict[str, list[JSON]], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "product", None)  # what makes them

    with pytest.raises(TooLarge, match="64,000,000 bytes"):
        plan_sweep(grid, new_task(queue="q", **options))


def task(place: int, **fields: object) -> Task:
    return Task(id=f"s.sweep.{place}", queue="q", flow="s", part="sweep", **fields)  # type: ignore[arg-type]


def test_runs_are_compared_in_the_order_of_the_combinations() -> None:
    runs = compare(
        [
            task(10, state="failed", error=Fault("ExitCode", "no room (exit code 1)")),
            task(
                2, state="complete", parameters={"lr": 1, "same": 0}, result={"loss": 2, "h": [1]},
                started_at=5.0, finished_at=8.0,
            ),
            task(1, state="started", parameters={"lr": 2, "same": 0}, started_at=5.0),
        ]
    )  # fmt: skip

    assert [run.place for run in runs] == [1, 2, 10]
    assert [run.duration for run in runs] == [None, 3.0, None]
    assert runs[2].error == "no room (exit code 1)"
    assert varying(runs[:2]) == ["lr"]
    assert figures(runs) == ["loss"]


def test_parameters_that_are_all_alike_are_shown_all_the_same() -> None:
    runs = [Run(id="a", place=0, parameters={"x": 1}, state="pending")]
    assert varying(runs) == ["x"]


def test_other_flows_are_no_sweeps() -> None:
    from stayer.core.flows.model import FlowInfo, Part

    part = Part(name="sweep", queue="q", is_map=True)
    assert is_sweep(FlowInfo(id="s", name="s", parts=(part,)))
    assert not is_sweep(FlowInfo(id="s", name="s", parts=(part, Part(name="b", queue="q"))))


def test_a_table_of_many_names_is_made_in_passing() -> None:
    """Each task may have parameters of its own: looked at again for each name, it would not end."""
    runs = [
        run(place, {f"p{place}_{n}": 0 for n in range(50)}, {f"r{place}_{n}": 0 for n in range(50)})
        for place in range(4000)
    ]
    assert varying(runs) == [*runs[0].parameters, *runs[1].parameters, *runs[2].parameters,
                             *runs[3].parameters][:MOST_COLUMNS]  # fmt: skip
    assert len(figures(runs)) == MOST_COLUMNS


def test_a_parameter_that_some_have_not_varies_unless_it_is_null() -> None:
    runs = [run(0, {"a": 1, "b": None, "c": 2, "d": [1]}), run(1, {"a": 1, "c": 3, "d": [1]})]
    assert varying(runs) == ["c"]
    assert varying([*runs, run(2, {"e": 1})]) == ["a", "c", "d", "e"]


def run(place: int, parameters: dict[str, JSON], result: JSON = None) -> Run:
    return Run(id=f"s.sweep.{place}", place=place, parameters=parameters, state="complete",
               result=result)  # fmt: skip


def test_more_combinations_than_can_be_counted_are_refused() -> None:
    """Their number has more digits than Python writes, and takes long to multiply."""
    grid: dict[str, list[JSON]] = {f"p{n}": [0, 1] for n in range(20_000)}
    with pytest.raises(TooLarge, match="at most 20,000 fit"):
        plan_sweep(grid, new_task(queue="q", name="n"))
