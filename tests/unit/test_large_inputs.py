"""Inputs that are made to cost more than they have bytes: what they cost is counted, not timed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stayer.core import codec, limits
from stayer.core.errors import BadInput, TooLarge
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
    with pytest.raises(BadInput, match=r"\[500\] is nan"):
        codec.pack([*[["x"]] * 500, float("nan")], "parameters", 10**6)


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
