"""Flows as they are written in JSON, and laid out into tasks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stayer.core.errors import BadInput
from stayer.core.flows.json import parse_flow
from stayer.core.flows.model import NewFlow, part_of, task_id
from stayer.core.flows.plan import limit_parallel
from stayer.core.model import NewTask


def parse(**written: Any) -> tuple[NewFlow, dict[str, NewTask]]:
    flow, tasks = parse_flow(json.dumps({"name": "n", "id": "f", **written}), "x.json", queue="q")
    return flow, {task.id: task for task in tasks}


def refused(text: str) -> str:
    with pytest.raises(BadInput) as refusal:
        parse_flow(text, "x.json", queue="q")
    return str(refusal.value)


def refused_tasks(**tasks: Any) -> str:
    return refused(json.dumps({"name": "n", "tasks": tasks}))


def test_parts_become_tasks() -> None:
    flow, tasks = parse(
        owner="ada",
        defaults={"queue": "etl", "retries": 2, "time_limit": "1h"},
        tasks={
            "fetch": {"command": ["fetch", "--all"]},
            "clean": {"name": "clean", "queue": "gpu", "after": ["fetch"], "when_failed": "run"},
        },
    )
    assert (flow.id, flow.name, flow.owner) == ("f", "n", "ada")
    assert [(part.name, part.queue, part.kind, part.after) for part in flow.parts] == [
        ("fetch", "etl", "fetch", ()),
        ("clean", "gpu", "clean", ("fetch",)),
    ]
    fetch, clean = tasks["f.fetch"], tasks["f.clean"]
    assert (fetch.queue, fetch.policy.retries, fetch.policy.time_limit) == ("etl", 2, 3600.0)
    assert (clean.queue, clean.after, clean.policy.when_failed) == ("gpu", ("f.fetch",), "run")
    assert {(task.flow, task.owner) for task in tasks.values()} == {("f", "ada")}


def test_a_map_has_a_task_for_each_item() -> None:
    flow, tasks = parse(
        tasks={
            "list": {},
            "size": {
                "map": ["a", {"b": 1}, "c"],
                "at_once": 2,
                "command": ["convert", "{}", "-o{}.png"],
                "after": ["list"],
            },
            "check": {"map": "size", "name": "check"},
            "end": {"after": ["check", "size"], "after_tasks": ["outside"]},
        }
    )
    part = flow.parts[1]
    assert (part.tasks, part.is_map, part.at_once) == (3, True, 2)
    assert flow.parts[2].after == ("size",)
    assert tasks["f.size.0"].command == ("convert", "a", "-oa.png")
    assert tasks["f.size.1"].command == ("convert", '{"b":1}', '-o{"b":1}.png')
    assert [tasks[f"f.size.{n}"].parameters for n in range(3)] == ["a", {"b": 1}, "c"]
    assert [tasks[f"f.size.{n}"].behind for n in range(3)] == [(), (), ("f.size.0",)]
    assert tasks["f.size.2"].after == ("f.list",)
    assert (tasks["f.check.1"].after, tasks["f.check.1"].policy.over) == (("f.size.1",), "size")
    assert tasks["f.end"].after == (
        "f.check.0", "f.check.1", "f.check.2", "f.size.0", "f.size.1", "f.size.2", "outside",
    )  # fmt: skip


def test_an_empty_map_keeps_nobody_waiting() -> None:
    flow, tasks = parse(tasks={"m": {"map": [], "name": "f"}, "end": {"after": ["m"]}})
    assert flow.parts[0].tasks == 0
    assert [(task.id, task.after) for task in tasks.values()] == [("f.end", ())]


def test_an_id_is_drawn_if_there_is_none() -> None:
    one, [task] = parse_flow('{"name": "n", "tasks": {"a": {}}}', "x.json", queue="q")
    other, _ = parse_flow('{"name": "n", "tasks": {"a": {}}}', "x.json", queue="q")
    assert one.id != other.id
    assert task.id == f"{one.id}.a"


def test_commands_run_where_they_were_submitted() -> None:
    text = '{"name": "n", "tasks": {"a": {"command": ["x"]}, "b": {"name": "f"}, "c": %s}}'
    own = '{"command": ["x"], "cwd": "/own"}'
    _, tasks = parse_flow(text % own, "x.json", queue="q", cwd="/here")
    assert [task.cwd for task in tasks] == ["/here", None, "/own"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x.json: empty"),
        ("{", "x.json: not JSON at line 1"),
        ("[]", "x.json: should be an object, not a list (a flow is {"),
        ("{}", "x.json: the field name is missing (a flow is {"),
        ('{"name": "n"}', "x.json: the field tasks is missing"),
        ('{"name": "n", "tasks": {}, "x": 1}', "contains unknown field x: allowed are name, tasks"),
        ('{"name": 1, "tasks": {}}', "x.json: name: should be text, not a whole number"),
        (
            '{"name": "n", "tasks": {"a": []}}',
            "x.json: tasks[...]: should be an object, not a list",
        ),
        ('{"name": "", "tasks": {"a": {}}}', "the name of a flow"),
    ],
)
def test_what_is_no_flow_is_refused(text: str, said: str) -> None:
    assert said in refused(text)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ({"a.b": {}}, "x.json: tasks: 'a.b' can't be the name of a part"),
        ({"a": {"after": "b"}}, 'x.json: tasks.a.after: should be a list, not text: write ["…"]'),
        ({"a": {"after": [1]}}, "x.json: tasks.a.after[0]: should be text, not a whole number"),
        ({"a": {"after": ["b"]}}, "tasks: a: no part of the flow is called 'b': there are a"),
        ({"a": {"after": ["b"]}, "b": {"after": ["a"]}}, "in a circle: a → b → a"),
        ({"a": {"retries": "x"}}, "x.json: tasks.a: retries: should be a whole number, not text"),
        ({"a": {"retries": -1}}, "x.json: tasks.a: retries:"),
        ({"a": {"id": "x"}}, "x.json: tasks.a.id: the id of a task is made of"),
        ({"a": {"colour": 1}}, "x.json: tasks.a: no field is called 'colour'"),
        ({"a": {"at_once": 2}}, "x.json: tasks.a.at_once: goes with a map"),
        ({"a": {"map": [1], "at_once": 0}}, "at_once 0: give a whole number from 1 on"),
        ({"a": {"map": [1], "parameters": 1}}, "x.json: tasks.a.parameters: each item of a map"),
        ({"a": {"map": "b"}, "b": {}}, "a: b is no map"),
        ({"a": {"map": 5}}, "x.json: tasks.a.map: should be text or a list, not a whole number"),
        ({"a": {"command": ["x"], "name": "y"}}, "x.json: tasks.a: a task has either a name or"),
        ({"a": {"when_failed": "cry"}}, "x.json: tasks.a: when_failed:"),
    ],
)
def test_an_error_names_the_place(tasks: dict[str, Any], said: str) -> None:
    assert said in refused_tasks(**tasks)


@pytest.mark.parametrize(("number", "at_once"), [(10, 3), (3, 3), (2, 5), (7, 1)])
def test_a_throttle_is_so_many_lines(number: int, at_once: int) -> None:
    names = [str(n) for n in range(number)]
    free = [
        name
        for name, before in zip(names, limit_parallel(names, at_once), strict=True)
        if not before
    ]
    assert len(free) == min(number, at_once)
    behind = [each for before in limit_parallel(names, at_once) for each in before]
    assert len(behind) == len(set(behind)) == number - len(free)


def test_ids_of_tasks_tell_their_parts() -> None:
    assert part_of("f", task_id("f", "a-b")) == ("a-b", None)
    assert part_of("f", task_id("f", "a-b", 7)) == ("a-b", 7)
    assert part_of("f", "other.a") == ("other.a", None)
    assert part_of(None, "f.a") == ("f.a", None)


def test_near_names_one_that_it_runs_after() -> None:
    parts = {
        "a": {"name": "a"},
        "m": {"name": "m", "map": [1, 2], "after": ["a"], "near": "a", "near_wait": "2m"},
        "o": {"name": "o", "map": "m", "near": "m"},
        "t": {"name": "t", "after_tasks": ["outside"], "near": "outside"},
    }
    text = json.dumps({"name": "f", "id": "f", "tasks": parts})
    _, tasks = parse_flow(text, "x.json", queue="q")
    found = {task.id: (task.policy.near, task.policy.near_wait) for task in tasks}
    assert found == {
        "f.a": (None, None),
        "f.m.0": ("f.a", 120.0),
        "f.m.1": ("f.a", 120.0),
        "f.o.0": ("f.m.0", None),
        "f.o.1": ("f.m.1", None),
        "f.t": ("outside", None),
    }


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"near": "a"}, "near 'a': give one of those that it runs after"),
        ({"after": ["m"], "near": "m"}, "'m', which is a map"),
        ({"after": ["a"], "near": "a", "near_wait": "soon"}, "tasks.x.near_wait"),
    ],
)
def test_near_something_else_is_refused(part: dict[str, object], said: str) -> None:
    parts = {"a": {"name": "a"}, "m": {"name": "m", "map": [1, 2]}, "x": {"name": "x", **part}}
    with pytest.raises(BadInput, match=re.escape(said)):
        parse_flow(json.dumps({"name": "f", "tasks": parts}), "x.json", queue="q")
