"""Inputs that are made to cost more than they have bytes: what they cost is counted, not timed."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stayer.core import codec, limits
from stayer.core.errors import BadInput, TooLarge
from stayer.core.flows import model
from stayer.core.flows.json import parse_flow
from stayer.core.flows.model import NewFlow
from stayer.core.flows.plan import PartPlan, fill_command, lay_out
from stayer.core.model import NewTask
from stayer.core.submit.json import parse_submission
from stayer.worker.run_directory import Run
from stayer.worker.safe_files import TooLong

LONG_KEY = 100_000


def observed(call: Callable[[], object], note: Callable[[FrameType], None]) -> None:
    """Call it, and be shown every call of a function of ours meanwhile."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/stayer/" in frame.f_code.co_filename:
            note(frame)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)


def text_handed_on(call: Callable[[], object]) -> int:
    """How many characters functions hand to each other."""
    characters: list[int] = []
    observed(call, lambda frame: characters.append(sum(map(_length, frame.f_locals.values()))))
    return sum(characters)


def calls_by_function(call: Callable[[], object]) -> Counter[str]:
    found: Counter[str] = Counter()
    observed(call, lambda frame: found.update((frame.f_code.co_name,)))
    return found


def _length(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_length, value))
    return len(value) if isinstance(value, str | bytes) else 0


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as found:
        call()
    return str(found.value)


def nested(inner: str, *, levels: int = 50) -> str:
    return f'{{"{"B" * (LONG_KEY // levels)}":' * levels + inner + "}" * levels


@pytest.mark.parametrize("bad", ["NaN", "1e999", '"\\ud800"', "1" * 4301, "x"])
@pytest.mark.parametrize("count", [10, 400])
def test_the_way_to_what_is_wrong_is_not_copied_for_every_value(bad: str, count: int) -> None:
    ones = "1," * count
    for parameters in (
        f'{{"{"A" * LONG_KEY}":[{ones}{bad}]}}',
        f'{{"{"A" * LONG_KEY}":{{"a":[{ones}1],"b":{bad}}}}}',
        nested(f"[{ones}{bad}]"),
    ):
        body = f'{{"queue": "q", "parameters": {parameters}}}'.encode()
        message = ""

        def parse(body: bytes = body) -> None:
            nonlocal message
            message = refused(lambda: parse_submission(body, "the item"))

        assert text_handed_on(parse) < 20 * len(body)
        assert len(message) < 500


def test_a_refusal_names_the_way_with_long_keys_and_long_ways_cut() -> None:
    def said(value: object) -> str:
        return refused(lambda: codec.pack(value, "parameters", 10**6))  # type: ignore[arg-type]

    nan = float("nan")
    assert said({"a": [1, {"b": nan}]}).startswith("parameters['a'][1]['b'] is nan")
    long = said({"A" * 1000: [nan]})
    assert long.startswith("parameters['AAAA")
    assert "…][0] is nan" in long
    assert len(long) < 200
    deep: Any = nan
    for level in range(50):
        deep = {f"level {level}": deep}
    assert said(deep).startswith("parameters['level 49']['level 48']")
    assert "['level 0'] is nan" in said(deep)
    assert len(said(deep)) < 400
    assert len(said({("x" * 1000, 1): 2})) < 700


def test_values_without_fault_cost_no_step_each() -> None:
    body = json.dumps({"queue": "q", "parameters": [1, "a", None, True, 1.5] * 100})
    body = body[:-2] + ", [NaN]]}"
    functions = calls_by_function(lambda: refused(lambda: parse_submission(body, "the item")))
    assert functions["_find_fault"] == 4


@pytest.mark.parametrize("value", ["[]", '"é"', '{"a":[]}'])
def test_the_search_for_a_fault_has_an_end(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_STEPS_LIMIT", 100)

    def message(number: int) -> str:
        body = f'{{"queue": "q", "parameters": [{f"{value}," * number}NaN]}}'
        return refused(lambda: parse_submission(body, "the item"))

    assert message(40).startswith("the item['parameters'][40] is nan")
    many = calls_by_function(lambda: message(5000))
    assert many["_find_fault"] == 101
    assert message(5000).startswith("the item: not usable as JSON: ")
    # What Python hands over is looked at to the end
    some: list[Any] = [["x"] for _ in range(500)]
    with pytest.raises(BadInput, match=r"\[500\] is nan"):
        codec.pack([*some, float("nan")], "parameters", 10**6)


def test_what_is_longer_than_any_task_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "refuse", lambda *_: pytest.fail("it was read"))
    with pytest.raises(TooLarge):
        parse_submission(b"[" * (limits.WRITTEN + 1), "the item")


def test_a_result_that_is_too_long_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "parse", lambda *_: pytest.fail("it was read"))
    (tmp_path / "result").write_bytes(b"[" + b"1," * (limits.WRITTEN // 2) + b"NaN]")
    with pytest.raises(TooLong):
        Run(tmp_path).result()


def flow_of(**written: Any) -> tuple[NewFlow, list[NewTask]]:
    return parse_flow(json.dumps({"name": "f", "id": "f", **written}), "flow", queue="q")


def built(call: Callable[[], object]) -> int:
    """The most memory, in bytes, that was taken meanwhile."""
    tracemalloc.start()
    try:
        with pytest.raises(BadInput):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


MEGABYTE = "A" * 1_000_000
LONG_COMMAND = ["echo", "x" * 60_000, "{}"]


def parts(number: int, part: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    return {f"a{each}": part or {} for each in range(number)}


def numbers(count: int) -> dict[str, Any]:
    return {"map": [1] * count}


FAR_TOO_LARGE: dict[str, dict[str, Any]] = {
    "parameters for all": {"defaults": {"parameters": MEGABYTE}, "tasks": parts(100)},
    "a map for all": {"defaults": numbers(1000), "tasks": parts(100)},
    "variables for all": {
        "defaults": {"command": ["x"], "env": {f"V{n}": "x" * 50 for n in range(500)}},
        "tasks": parts(4000),
    },
    "too many parts": {"tasks": parts(limits.FLOW_TASKS + 1, numbers(0))},
    "too many tasks": {"tasks": {"a": numbers(12_000), "b": numbers(12_000)}},
    "too many ties": {"tasks": {"a": numbers(1000), "b": {**numbers(1000), "after": ["a"]}}},
    "ties of others": {"tasks": {"a": {**numbers(1000), "after_tasks": [*map(str, range(1000))]}}},
    "ties for all": {
        "defaults": {"after": ["a0"] * 1000},
        "tasks": {**parts(1000), "a0": {"after": []}},
    },
    "long items in a command": {
        "tasks": {"a": {"command": ["echo", "{}" * 300], "map": [MEGABYTE]}}
    },
    "many items in a long command": {
        "tasks": {"a": {"command": LONG_COMMAND, "map": [*range(3000)]}}
    },
    "maps in turn": {"tasks": parts(5, {"command": LONG_COMMAND, "map": [*range(500)]})},
    "a map over a map": {
        "tasks": {"a": numbers(1000), "b": {"map": "a", "parameters": "A" * 100_000}}
    },
}


@pytest.mark.parametrize("kind", FAR_TOO_LARGE)
def test_a_flow_that_expands_to_too_much_is_refused_before_it_does(kind: str) -> None:
    text = json.dumps({"name": "f", **FAR_TOO_LARGE[kind]})
    message = ""

    def parse() -> None:
        nonlocal message
        try:
            parse_flow(text, "flow", queue="q")
        except BadInput as error:
            message = str(error)
            raise

    assert built(parse) < 100_000_000
    assert "at most" in message
    assert len(message) < 500


def test_the_python_door_is_as_narrow() -> None:
    pattern = NewTask(id="", queue="q", parameters=MEGABYTE)
    for plans, said in (
        ([PartPlan(name=f"a{n}", tasks=(pattern,)) for n in range(100)], "64,000,000 bytes"),
        ([PartPlan(name="a", tasks=(pattern,) * 20_001, is_map=True)], "20,001 tasks"),
    ):
        with pytest.raises(TooLarge, match=said):
            lay_out("f", plans)
    with pytest.raises(TooLarge, match="at most 64,000 fit"):
        fill_command(["echo", "{}" * 15_000], MEGABYTE)


def test_defaults_are_read_once() -> None:
    defaults = {"parameters": "A" * LONG_KEY, "retries": 3}
    encoded: list[int] = []
    observed(
        lambda: flow_of(defaults=defaults, tasks=parts(200)),
        lambda frame: encoded.extend(
            len(value) for value in frame.f_locals.values() if isinstance(value, bytes)
        ),
    )
    assert LONG_KEY < sum(encoded) < 2 * LONG_KEY


def test_what_a_part_says_counts_for_more_than_defaults() -> None:
    _, [one, two, three] = flow_of(
        defaults={"retries": 3, "parameters": {"n": 1}, "after_tasks": ["t"], "near_wait": "1m"},
        tasks={
            "a": {},
            "b": {"retries": None, "parameters": None, "after_tasks": []},
            "c": {"retries": 5, "queue": "other"},
        },
    )
    assert [task.policy.retries for task in (one, two, three)] == [3, 0, 5]
    assert [task.parameters for task in (one, two, three)] == [{"n": 1}, None, {"n": 1}]
    assert [task.after for task in (one, two, three)] == [("t",), (), ("t",)]
    assert refused(lambda: flow_of(defaults={"colour": 1}, tasks={"a": {}})).startswith(
        "flow: defaults: no field is called 'colour'"
    )


def test_the_largest_flow_that_fits_is_accepted() -> None:
    items = [{"file": f"film-{number}.mp4"} for number in range(10_000)]
    flow, tasks = flow_of(
        tasks={"a": {"command": ["convert", "{}"], "map": items, "at_once": 10}, "b": {"map": "a"}}
    )
    assert len(tasks) == limits.FLOW_TASKS
    assert [part.tasks for part in flow.parts] == [10_000, 10_000]


def ring(number: int) -> dict[str, dict[str, list[str]]]:
    return {f"a{each}": {"after": [f"a{(each + 1) % number}"]} for each in range(number)}


def test_a_circle_is_walked_once_and_shown_in_part() -> None:
    assert refused(lambda: flow_of(tasks=ring(3))).endswith(
        "in a circle: a0 → a1 → a2 → a0. Take one `after` out"
    )
    message = refused(lambda: flow_of(tasks=ring(5000)))
    assert "a0 → a1 → a2" in message
    assert "→ a4999 → a0." in message
    assert len(message) < 500


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_no_name_of_a_circle_is_compared_with_all_others() -> None:
    names = [Counted(f"a{number}") for number in range(500)]
    after: dict[str, list[str]] = {name: [names[(at + 1) % 500]] for at, name in enumerate(names)}
    Counted.compared = 0
    refused(lambda: model.in_order(after))
    assert Counted.compared < 20 * 500


def test_a_part_that_is_not_there_is_named_without_all_that_are() -> None:
    tasks = {**parts(5000), "x": {"after": ["nobody"]}}
    assert len(refused(lambda: flow_of(tasks=tasks))) < 1000
