"""Records as they are shown, and JSON as people write it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core import codec
from stayer.core.codec import parse
from stayer.core.errors import BadInput
from stayer.core.model import Attempt, Event, Fault, Policy, Progress, Task
from stayer.core.queue_model import QueueInfo
from stayer.core.submit.json import parse_submission
from stayer.core.worker_model import Worker

NAMES = (
    "id queue name command cwd env parameters state held attempt failures interruptions ending "
    "priority owner tags result error progress node worker pid created updated eta started_at "
    "finished_at paused usage checkpoint_at "
    "orders start_before finish_before flow part upstreams key unique unique_while "
    "unique_for notify fingerprint cloned_from code pinned meta submitted_by source_commit metrics "
    "retries retry_wait retry_backoff "
    "retry_cap "
    "retry_on give_up_on deadline time_limit "
    "silence_limit memory_limit grace fence when_failed time_growth time_most memory_growth "
    "memory_most near near_wait"
)


def by_what_is_said(*cases: tuple[Any, str]) -> Any:
    """Cases named by the second value, since the first may have no short name."""
    return [pytest.param(case, said, id=said) for case, said in cases]


FULL = Task(
    id="a",
    queue="q",
    command=("ls", "-l"),
    env={"A": "1"},
    parameters=b"\x00\xff",
    state="started",
    tags=("x", "y"),
    result={"n": 1},
    error=Fault("Boom", exit_code=1),
    progress=Progress(1.0, 2.0, at=1794774800.5),
    created=1794774800.123,
    updated=1794774800.0,
    eta=0.0,
    policy=Policy(retries=3),
)


def test_the_record_has_the_names_of_the_design_in_order():
    """A new field may stand between them, where the class has it."""
    shown = list(codec.record(FULL))
    assert [name for name in shown if name in NAMES.split()] == NAMES.split()
    assert list(codec.record(Task(id="a", queue="q"))) == shown


def test_the_record_is_what_json_can_say():
    found = codec.record(FULL)
    assert parse(codec.encode(found), "record") == found
    assert found["created"] == "2026-11-15T20:33:20.123Z"
    assert found["eta"] == "1970-01-01T00:00:00.000Z"
    assert found["started_at"] is None
    assert found["parameters"] == {"base64": "AP8="}
    assert found["command"] == ["ls", "-l"]
    assert found["tags"] == ["x", "y"]
    assert found["error"] == {
        "type": "Boom",
        "message": "",
        "traceback": None,
        "exit_code": 1,
        "signal": None,
    }
    assert found["progress"] == {
        "done": 1.0,
        "total": 2.0,
        "message": None,
        "at": "2026-11-15T20:33:20.500Z",
        "remaining": None,
    }
    assert found["retries"] == 3


def test_parameters_are_shown_as_they_are_whatever_their_names():
    task = Task(id="a", queue="q", parameters={"created": 1, "tags": "x", "at": 2.0})
    assert codec.record(task)["parameters"] == {"created": 1, "tags": "x", "at": 2.0}


def test_other_records_show_times_and_lists_likewise():
    attempt = codec.attempt_record(Attempt(attempt=2, reserved_at=0.0, error=Fault("Boom")))
    assert attempt["reserved_at"] == "1970-01-01T00:00:00.000Z"
    assert attempt["finished_at"] is None
    assert isinstance(attempt["error"], dict)
    event = codec.event_record(Event(number=1, at=0.0, id="a", queue="q", event="pending"))
    assert list(event) == ["number", "at", "id", "queue", "event", "attempt", "worker", "note"]
    assert event["at"] == "1970-01-01T00:00:00.000Z"
    worker = codec.worker_record(Worker(id="w", node="n", pid=1, queues=("a", "b")))
    assert worker["queues"] == ["a", "b"]
    assert worker["lease"] == 120.0
    assert worker["beat_at"] == "1970-01-01T00:00:00.000Z"


def test_a_queue_shows_a_count_for_every_state():
    found = codec.queue_record(QueueInfo(name="q", counts={"pending": 2}, oldest=0.0))
    assert found["oldest"] == "1970-01-01T00:00:00.000Z"
    assert found["counts"] == {
        "waiting": 0,
        "scheduled": 0,
        "pending": 2,
        "reserved": 0,
        "started": 0,
        "complete": 0,
        "failed": 0,
        "cancelled": 0,
    }


def test_json_is_compact_for_programs_and_indented_for_people():
    assert codec.encode({"a": [1, 2]}) == '{"a":[1,2]}'
    assert codec.encode_pretty({"a": 1}) == '{\n  "a": 1\n}'


def test_base64_at_the_top_is_bytes():
    assert parse('{"base64": "AP8="}', "parameters") == b"\x00\xff"
    assert parse(b'[{"base64": "AP8="}]', "parameters") == [{"base64": "AP8="}]
    assert parse('{"base64": 1}', "parameters") == {"base64": 1}
    assert parse('{"base64": "", "b": 1}', "parameters") == {"base64": "", "b": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    by_what_is_said(
        ("", "empty"),
        (" \n", "empty"),
        ('{"a": 1,\n  b: 2}', "line 2, column 3, near 'b: 2}'"),
        ("{'a': 1}", "double quotes"),
        ("hello", "line 1, column 1"),
        ('{"a": ', "at its end"),
        ("1 2", "extra data"),
        ("NaN", "is nan"),
        ('["\\ud800"]', "lone surrogate"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        ("1e999", "inf"),
        ("[1" + "0" * 5000 + "]", "parameters"),
        ("[" * 100_000, "parameters"),
        ('{"base64": "!"}', "not base64"),
    ),
)
def test_malformed_json_is_refused_by_its_place(text, said):
    with pytest.raises(BadInput) as refusal:
        parse(text, "parameters")
    assert said in str(refusal.value)
    assert str(refusal.value).startswith("parameters")


@given(st.text() | st.binary())
def test_parse_refuses_or_reads_but_never_breaks(text):
    with suppress(BadInput):
        parse(text, "parameters")


def test_a_submission_says_nothing_of_what_is_not_written():
    assert parse_submission("{}", "line 1") == {}


def test_a_submission_is_read_whole():
    line = (
        '{"id": "a", "queue": "q", "command": ["ls"], "cwd": "/", "env": {"A": "1"}, '
        '"parameters": {"base64": "AP8="}, "priority": -5, "eta": "2026-11-15T20:33:20Z", '
        '"owner": "ann", "tags": ["x"], "held": true, "retries": 2}'
    )
    found = parse_submission(line, "line 1")
    assert found == {
        "id": "a", "queue": "q", "command": ("ls",), "cwd": "/", "env": {"A": "1"},
        "parameters": b"\x00\xff", "priority": -5, "eta": 1794774800.0, "owner": "ann",
        "tags": ("x",), "held": True, "retries": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "seconds"), [("600", 600.0), ('"10m"', 600.0), ("0.5", 0.5), ("0", 0.0)]
)
def test_a_delay_is_a_number_or_a_duration(written, seconds):
    assert parse_submission(f'{{"delay": {written}}}', "line 1")["delay"] == seconds


def test_an_eta_is_a_number_or_a_time():
    assert parse_submission('{"eta": 1794774800}', "line 1")["eta"] == 1794774800.0
    assert parse_submission('{"eta": "2026-11-15T21:33:20+01:00"}', "l")["eta"] == 1794774800.0


@pytest.mark.parametrize(
    ("line", "said"),
    by_what_is_said(
        ('{"quue": "a"}', "no field is called 'quue': allowed are queue, id, name"),
        ('{"state": "failed"}', "'state' is in the record of a task, not in a submission (`clone`"),
        ('{"queue": 3}', "queue: should be text, not a whole number"),
        ('{"tags": ["a", 1]}', "tags[1]: should be text, not a whole number"),
        ('{"command": "ls"}', 'command: should be a list, not text: write ["…"]'),
        ('{"retries": -1}', "retries: expected int >= 0"),
        ('{"env": {"A": 1}}', "should be text, not a whole number"),
        ('{"priority": 1e99}', "priority: "),
        ('{"delay": "soon"}', "delay: 'soon' is not a duration"),
        ('{"delay": -1}', "delay: '-1.0' is not a duration"),
        ('{"eta": "tomorrow"}', "eta: 'tomorrow' is not a moment"),
        ('{"eta": "+10m"}', "eta: '+10m' is not a moment"),
        ('{"eta": -5}', "eta: "),
        ("[1]", "a task is an object"),
        ('{"queue": "a"', "line 7: not JSON at line 1"),
        (b'{"queue": "\xff"}', "not UTF-8"),
        ('{"parameters": NaN}', "is nan"),
        ('{"parameters": {"base64": "!"}}', "line 7: parameters: not base64"),
        ("", "empty"),
    ),
)
def test_a_bad_submission_is_refused_by_line_and_field(line, said):
    with pytest.raises(BadInput) as refusal:
        parse_submission(line, "line 7")
    assert str(refusal.value).startswith("line 7")
    assert said in str(refusal.value)
