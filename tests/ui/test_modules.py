"""Modules of the page that only compute, in the browser that runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.http.serving import Site
from tests.ui.browsing import logged_in
from tests.unit.test_kind import KINDS


@pytest.fixture(scope="module")
def module(browser: Browser, scene: Site) -> Iterator[Any]:
    """Call a function of a module."""
    with logged_in(browser, scene.url, scene.tokens["read"]) as tabs:
        page = tabs.open("now")

        def call(name: str, expression: str) -> Any:
            return page.evaluate(
                f"async () => {{ const it = await import('./ui/{name}'); return {expression}; }}"
            )

        yield call


@pytest.mark.parametrize(
    ("line", "spans"),
    [
        ("plain", [("plain", {})]),
        ("\x1b[31mred\x1b[0m no", [("red", {"fore": "1"}), (" no", {})]),
        ("\x1b[1;92mok", [("ok", {"bold": True, "fore": "10"})]),
        ("\x1b[38;5;196mx", [("x", {"fore": "#ff0000"})]),
        ("\x1b[48;2;1;2;300mx", [("x", {"back": "#0102ff"})]),
        ("10%\r20%\r30%", [("30%", {})]),
        ("\x1b]0;title\x07x\x1b[2Ky", [("x", {}), ("y", {})]),
        ("\x1b[", []),
        ("\x1b[38;5m\x1b[999mx", [("x", {})]),
        ("a\u202eb", [("a\ufffdb", {})]),
    ],
)
def test_colours_of_a_terminal(
    module: Any, line: str, spans: list[tuple[str, dict[str, Any]]]
) -> None:
    found = module("ansi.js", f"it.parse({json.dumps(line)}).spans")
    assert [(span["text"], span["look"]) for span in found] == spans


def test_kinds_are_those_of_the_server(module: Any) -> None:
    commands = [command for command, _ in KINDS]
    found = module("kinds.js", f"{json.dumps(commands)}.map((command) => it.kind({{command}}))")
    assert found == [kind for _, kind in KINDS]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("duration(0)", "0s"),
        ("duration(0.4)", "<1s"),
        ("duration(59.9)", "59s"),
        ("duration(3599)", "59m 59s"),
        ("duration(7500)", "2h 05m"),
        ("duration(93600)", "1d 2h"),
        ("duration(3 * 86400 - 20)", "3d 0h"),
        ("duration(86390)", "1d 0h"),
        ("duration(7195)", "2h 00m"),
        ("duration(null)", "–"),
        ("size(999)", "999 B"),
        ("size(1600000000)", "1.6 GB"),
        ("size(999999)", "1.0 MB"),
        ("percent(0.634)", "63\u202f%"),
        ("percent(0.004)", "0.4\u202f%"),
        ("percent(0.9999)", "99\u202f%"),
        ("count(4312)", "4\u202f312"),
        ("fraction({done: 3, total: 4})", 0.75),
        ("fraction({done: 0.5, total: null})", 0.5),
        ("fraction({done: 12, total: null})", None),
        ("fraction({done: 9, total: 4})", 1),
        ("clean('a\\n\\u202eb')", "a \ufffdb"),
        ("clean('x'.repeat(500), 10)", "xxxxxxxxx…"),
    ],
)
def test_how_things_are_written(module: Any, call: str, said: object) -> None:
    assert module("format.js", f"it.{call}") == said


@pytest.mark.parametrize(
    ("span", "most", "labels"),
    [
        ("0, 90, 4", 4, ["00:00:00", "00:00:30", "00:01:00", "00:01:30"]),
        ("671, 24211, 4", 4, ["02:00", "04:00", "06:00"]),
        ("3700, 90000, 5", 5, ["06:00", "12:00", "18:00", "Fri 2"]),
        ("100, 100.5, 3", 3, ["00:01:40"]),
    ],
)
def test_ticks_of_an_axis_are_round(module: Any, span: str, most: int, labels: list[str]) -> None:
    found = module("ticks.js", f"it.timeTicks({span})")
    assert len(found) <= most + 1
    shown = [tick["label"].replace("2 Fri", "Fri 2") for tick in found]
    assert shown == labels


def test_a_time_is_told_in_the_zone_that_it_is_meant_in(module: Any) -> None:
    assert module(
        "format.js", "it.clockIn(it.seconds('2026-07-01T00:30:00Z'), 'Europe/Berlin')"
    ).endswith("02:30 Europe/Berlin")
    assert module("format.js", "it.clockIn(0, 'Nowhere/Land')") is None


def test_of_very_many_events_it_says_how_many_are_not_shown(module: Any) -> None:
    def shown(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module(
            "task-events.js", f"it.shownEvents('a', {json.dumps(events)})"
        )
        return found

    events = [{"number": number, "event": "held", "at": "", "note": ""} for number in range(1, 301)]
    assert shown(events[:100]) == events[99::-1]
    assert shown(events)[:100] == events[:199:-1]
    assert [event["note"] for event in shown(events)[100:]] == ["200 more: stayer show --json a"]
    events[50] = {"number": 51, "event": "dropped", "at": "", "note": "2,000 events were here"}
    assert [event["note"] for event in shown(events)[100:]] == [
        "2,000 events were here",
        "199 more: stayer show --json a",
    ]


def test_where_attempts_are_not_known_nothing_is_drawn(module: Any) -> None:
    def at(minute: int) -> str:
        return f"2026-01-01T00:{minute:02}:00Z"

    def attempt(number: int, minute: int) -> dict[str, Any]:
        return {"attempt": number, "reserved_at": at(minute), "started_at": at(minute),
                "finished_at": at(minute + 1), "ending": "snoozed", "node": "n"}  # fmt: skip

    attempts = [attempt(1, 1), attempt(2, 3), attempt(90, 30), attempt(91, 40)]
    task = {"state": "complete", "created": at(0), "finished_at": at(41), "events": [],
            "attempts": attempts}  # fmt: skip
    [queue, *_] = module("attempt-lanes.js", f"it.lanesOf({json.dumps(task)})")
    waited = [(piece["to"] - piece["from"]) / 60 for piece in queue["pieces"]]
    assert waited == [1, 1, 9]
