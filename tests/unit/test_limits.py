"""How long texts and lists may be, wherever they come in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stayer.core import fields, limits, queue_settings, units
from stayer.core.errors import BadInput
from stayer.core.flows.json import parse_flow
from stayer.core.ordering import rate_limit
from stayer.core.schedules import parse
from stayer.core.schedules.parse import WrittenSchedule
from stayer.core.submit import checks
from stayer.core.submit.json import WrittenSubmission, parse_submission
from tests.contract.long_inputs import LONG, MANY, long_values

_FREE = ("parameters",)
FIELDS = list(long_values(WrittenSubmission, _FREE))


def made(**fields: Any) -> Any:
    return checks.new_task(**{"queue": "q", **fields})


def names(fields: list[tuple[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for name, _ in fields))


@pytest.mark.parametrize("name", names(FIELDS))
def test_a_written_task_is_refused_by_its_length(name: str) -> None:
    for value in (value for field, value in FIELDS if field == name):
        written = {"command": ["true"]} if name == "cwd" else {}
        with pytest.raises(BadInput) as found:
            made(**parse_submission(json.dumps(written | {name: value}), "the item"))
        assert len(str(found.value)) < 3000


@pytest.mark.parametrize("name", names(FIELDS))
def test_a_task_of_python_is_refused_by_its_length(name: str) -> None:
    more = {"command": ["true"]} if name == "cwd" else {}
    for value in (value for field, value in FIELDS if field == name):
        with pytest.raises((BadInput, TypeError)) as found:
            made(**more, **{name: value})
        assert len(str(found.value)) < 3000


@pytest.mark.parametrize("name", names(list(long_values(WrittenSchedule))))
def test_a_schedule_is_refused_by_its_length(name: str) -> None:
    written = {"name": "s", "cron": "@daily", "task": {"command": ["true"]}}
    for value in (value for field, value in long_values(WrittenSchedule) if field == name):
        with pytest.raises(BadInput) as found:
            parse.parse(json.dumps({**written, name: value}).encode(), "s", {"queue": "q"})
        assert len(str(found.value)) < 3000


@pytest.mark.parametrize("name", names(FIELDS))
def test_a_task_of_a_flow_is_refused_by_its_length(name: str) -> None:
    for value in (value for field, value in FIELDS if field == name):
        task = {"command": ["true"], name: value}
        with pytest.raises(BadInput) as found:
            parse_flow(json.dumps({"name": "f", "tasks": {"a": task}}), "flow", queue="q")
        assert len(str(found.value)) < 3000


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
@pytest.mark.parametrize(
    "read",
    [
        units.duration, units.size, units.memory, units.instant, rate_limit.parse,
        lambda text: units.moment(text, 0.0), lambda text: units.moment("+" + text, 0.0),
    ],
)  # fmt: skip
def test_no_unit_is_so_long(read: Any, text: str) -> None:
    with pytest.raises(BadInput) as found:
        read(text)
    assert len(str(found.value)) < 1000


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_settings_of_a_queue_are_refused_by_their_length(text: str) -> None:
    settings: tuple[Any, ...] = (
        {"rate": text}, {"fair": text}, {"notify": [text]}, {"key_limits": {text: 1}},
    )  # fmt: skip
    for written in settings:
        with pytest.raises(BadInput) as found:
            queue_settings.read(written)
        assert len(str(found.value)) < 1000


def test_a_queue_has_no_more_than_a_thousand_key_limits() -> None:
    some = {str(number): 1 for number in range(1000)}
    assert queue_settings.read({"key_limits": some})["key_limits"] == some
    with pytest.raises(BadInput, match=r"key_limits: 1,001 are too many, at most 1,000 fit"):
        queue_settings.read({"key_limits": {**some, "more": 1}})


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["true", *["x" * 30_000] * 3]},
        {"command": ["true"] + ["x"] * 100_000},
        {"command": ["true"], "env": {f"V{number}": "x" * 100 for number in range(900)}},
        {"command": ["true"], "env": {f"V{number}": "x" for number in range(2000)}},
        {"command": ["/" * 5000]},
        {"command": ["true"], "cwd": "/" * 5000},
        {"tags": [str(number) for number in range(101)]},
        {"retry_on": [str(number) for number in range(101)]},
        {"give_up_on": [str(number) for number in range(101)]},
        {"notify": [f"hook{number}" for number in range(11)]},
        {"after": ["a"] * 100_001},
    ],
)
def test_a_record_has_a_limit_as_a_whole_and_for_each_list(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="at most"):
        made(**fields)
    with pytest.raises(BadInput, match="at most"):
        made(**parse_submission(json.dumps(fields), "the item"))


def test_what_fits_is_accepted() -> None:
    task = made(
        command=["sh", "-c", "x" * 50_000],
        env={"PATH": "/bin"},
        tags=[str(number) for number in range(100)],
        time_limit=units.duration(" 1h 30m "),
    )
    assert len(task.command[2]) == 50_000


def test_an_item_of_a_map_does_not_make_a_command_too_long() -> None:
    written = {
        "name": "f",
        "tasks": {"a": {"command": ["echo", "{}{}"], "map": ["x" * MANY]}},
    }
    with pytest.raises(BadInput, match="at most 64,000 fit"):
        parse_flow(json.dumps(written), "flow", queue="q")


@pytest.mark.parametrize("digits", [4301, 100_000])
def test_a_number_of_thousands_of_digits_is_bad_input(digits: int) -> None:
    number = "9" * digits
    for written in (f'{{"priority": {number}}}', f'{{"memory_limit": {number}}}',
                    f'{{"retries": {number}}}', f'{{"eta": {number}}}'):  # fmt: skip
        with pytest.raises(BadInput):
            made(**parse_submission(written, "the item"))
    with pytest.raises(BadInput):
        rate_limit.parse(f"{number}/1h")
    for value in (
        {"limit": int("9" * 4000)},
        {"key_limit": 10**4000},
        {"key_limits": {"a": 10**5000}},
    ):
        with pytest.raises(BadInput):
            queue_settings.read(value)  # type: ignore[arg-type]


def deep(opening: str = "[", inner: str = "", closing: str = "]") -> str:
    return opening * 100_000 + inner + closing * 100_000


NESTED = {
    "array": deep(),
    "object": deep('{"a":', "1", "}"),
    "parameters": '{"parameters": ' + deep() + "}",
    "tags": '{"tags": ' + deep() + "}",
    "env": '{"env": {"A": ' + deep() + "}}",
}


@pytest.mark.parametrize("kind", NESTED)
def test_deep_nesting_is_bad_input_for_every_parser(kind: str) -> None:
    written = NESTED[kind]
    with pytest.raises(BadInput):
        parse_submission(written, "the item")
    for task in (written, '{"name": "s", "cron": "@daily", "task": ' + written + "}"):
        with pytest.raises(BadInput):
            parse.parse(task.encode(), "s", {"queue": "q"})
    flows = (
        written,
        '{"name": "f", "tasks": {"a": ' + written + "}}",
        '{"name": "f", "tasks": {"a": {"map": ' + written + "}}}",
        '{"name": "f", "defaults": ' + written + ', "tasks": {"a": {}}}',
    )
    for flow in flows:
        with pytest.raises(BadInput):
            parse_flow(flow, "flow", queue="q")


def test_the_documentation_names_the_limits() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
    table = page[page.index("## How much fits") :]
    usual = {"text": limits.Most(limits.WORD)} | dict.fromkeys(
        ("moment", "seconds", "bytes"), limits.Most(limits.UNIT)
    )
    for name, most in {**fields.MOST, **limits.SCHEDULE, **limits.QUEUE}.items():
        rows = [line for line in table.splitlines() if f"`{name}`" in line][:1]
        if not rows:  # as long as its kind usually is
            assert most == usual[fields.SUBMISSION[name].kind], f"{name} has no row"
            continue
        [row] = rows
        said = [int(number.replace(",", "")) for number in re.findall("[0-9][0-9,]*", row)]
        assert most.characters in said or name == "name", (name, row)
        assert most.items is None or most.items in said, (name, row)
    assert f"{limits.RECORD:,} bytes" in table
    assert f"{limits.WRITTEN:,} bytes" in table
    for number in (limits.FLOW_TASKS, limits.FLOW_TIES, limits.FLOW_BYTES):
        assert f"{number:,}" in table
