"""Values come back as they were, and what can't be stored or read is refused with reasons."""

from __future__ import annotations

import enum
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, Struct, UnsetType

from stayer.core import codec
from stayer.core.codec import PARAMETERS_LIMIT, pack, parse, parse_submission, unpack
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import Attempt, Event, Fault, Policy, Progress, QueueInfo, Task, Worker

NAMES = (
    "id queue name command cwd env parameters state held attempt failures interruptions ending "
    "priority owner tags result error progress node worker pid created updated eta started_at "
    "finished_at retries"
)

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)
user_bytes = st.binary() | st.binary().map(lambda tail: codec._MAGIC + tail)


def by_what_is_said(*cases: tuple[Any, str]) -> Any:
    """Cases named by the second value, since the first may have no short name."""
    return [pytest.param(case, said, id=said) for case, said in cases]


def stored(value: Any) -> str | bytes | None:
    return pack(value, "parameters", PARAMETERS_LIMIT)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(json_values | user_bytes)
def test_what_is_packed_comes_back_as_it_was(value):
    back = unpack(stored(value))
    assert back == value
    assert type(back) is type(value)


@given(json_values)
def test_large_values_come_back_as_they_were(value):
    large = [value, "x" * codec.COMPRESS_OVER]
    form = stored(large)
    assert isinstance(form, bytes)
    assert unpack(form) == large


@given(st.text(st.characters()) | st.binary() | user_bytes)
def test_nothing_that_is_stored_breaks_unpack(form):
    unpack(form)


@given(user_bytes)
def test_bytes_are_never_taken_for_anything_else(value):
    form = stored(value)
    assert isinstance(form, bytes)
    assert unpack(form) == value


def test_nothing_is_stored_as_nothing():
    assert stored(None) is None
    assert unpack(None) is None
    assert unpack("null") is None


def test_small_values_are_stored_as_plain_json():
    assert stored({"a": [1, 2.5, "ü", None, True]}) == '{"a":[1,2.5,"ü",null,true]}'
    assert stored("text") == '"text"'
    assert stored(b"raw\0") == b"raw\0"


def test_text_that_is_not_json_is_itself():
    for text in ("hello", "", "NaN", "{'a': 1}", "1e999", "[" * 100_000, "\ud800"):
        assert unpack(text) == text


def test_large_values_are_compressed():
    for value in ({"text": "x" * 10_000}, b"x" * 10_000):
        form = stored(value)
        assert isinstance(form, bytes)
        assert len(form) < 200
        assert unpack(form) == value


def test_what_does_not_shrink_is_not_compressed():
    noise = os.urandom(10_000)
    assert stored(noise) == noise


def test_bytes_that_look_compressed_come_back_as_they_were():
    form = stored("x" * 10_000)
    assert isinstance(form, bytes)
    assert unpack(stored(form)) == form
    large = form + os.urandom(10_000)
    assert unpack(stored(large)) == large


def test_a_damaged_blob_is_its_own_bytes():
    form = stored("x" * 10_000)
    assert isinstance(form, bytes)
    damaged = [form[:5], form[:-1], form + b"more", form[:20] + b"\0" + form[21:]]
    damaged += [codec._MAGIC, codec._MAGIC + b"?", form[:4] + b"z" + form[5:]]
    for blob in damaged:
        assert unpack(blob) == blob


def test_a_compressed_blob_that_holds_no_json_is_its_own_bytes():
    form = codec._squeeze(b"{not json}" * 1000, codec._JSON)
    assert form is not None
    assert unpack(form) == form


def test_a_blob_that_would_fill_the_memory_stays_packed(monkeypatch):
    form = stored(b"x" * 100_000)
    monkeypatch.setattr(codec, "_INFLATED_LIMIT", 99_999)
    assert unpack(form) == form


def test_what_could_not_be_inflated_again_is_not_compressed(monkeypatch):
    monkeypatch.setattr(codec, "_INFLATED_LIMIT", 9_999)
    assert stored(b"x" * 10_000) == b"x" * 10_000


def test_bytes_like_values_are_stored_as_bytes():
    assert stored(bytearray(b"ab")) == b"ab"
    assert stored(memoryview(b"ab")) == b"ab"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**300])
def test_integers_of_any_usual_size_come_back(number):
    assert unpack(stored([number])) == [number]


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


class Measure(float):
    pass


@dataclass
class Point:
    x: float
    label: Any = None


class Box(Struct):
    width: int
    content: Any = None
    note: str | UnsetType = UNSET


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ((1, [(2,)]), "[1,[[2]]]"),
        (Point(1.5), '{"x":1.5,"label":null}'),
        ([Box(2, Point(1.0))], '[{"width":2,"content":{"x":1.0,"label":null}}]'),
        ({"at": datetime(2026, 11, 15, tzinfo=UTC)}, '{"at":"2026-11-15T00:00:00Z"}'),
        ([Colour.RED], '["red"]'),
        ([Word("a"), Measure(1.5)], '["a",1.5]'),
    ],
)
def test_what_json_can_say_of_it_is_stored(value, form):
    assert stored(value) == form


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    by_what_is_said(
        ({"a": [0, b"x"]}, "parameters['a'][1] is bytes"),
        ({"a": bytearray(b"x")}, "parameters['a'] is bytes"),
        (float("nan"), "parameters is nan"),
        ([float("inf")], "parameters[0] is inf"),
        ([Measure("nan")], "parameters[0] is nan"),
        ({"a": {1, 2}}, "parameters['a'] is a set"),
        (frozenset(), "parameters is a set"),
        ({1: 2}, "has the key 1"),
        ({"a": {None: 2}}, "parameters['a'] has the key None"),
        ({b"k": 2}, r"has the key b'k'"),
        ("a\ud800", "lone surrogate at character 1"),
        ({"\ud800": 1}, "key with a lone surrogate"),
        ([object()], "parameters[0] is of class object"),
        ((1, range(3)), "parameters[1] is of class range"),
        (Point(float("nan")), "parameters.x is nan"),
        ([Box(1, content=b"x")], "parameters[0].content is bytes"),
        (Box(1, content=object()), "parameters.content is of class object"),
        (endless(), "in itself"),
        (nested(101), "nested over 100"),
        ({"a": nested(100)}, "nested over 100"),
        (nested(100_000), "nested over 100"),
        (10**5000, "4,000 digits"),
        ([1, -(10**5000)], "parameters[1] is a number"),
        (Point, "is of class type"),
    ),
)
def test_what_json_can_not_say_is_refused_by_its_place(value, said):
    with pytest.raises(BadInput) as refusal:
        stored(value)
    assert said in str(refusal.value)
    assert str(refusal.value).startswith("parameters")


def test_what_nobody_can_explain_is_refused_all_the_same():
    with pytest.raises(BadInput, match="parameters can't be written as JSON"):
        stored(Raw(b"{broken"))


def test_a_hundred_levels_are_not_too_deep():
    assert unpack(stored(nested(100))) == nested(100)
    wide = [[0] for _ in range(200)]
    assert unpack(stored(wide)) == wide


def test_brackets_in_a_string_are_not_depth():
    assert unpack(stored("[" * 1000)) == "[" * 1000


@pytest.mark.parametrize("kind", [str, bytes])
def test_too_large_says_how_large_and_what_to_do(kind):
    value = b"x" * 1_400_000
    with pytest.raises(TooLarge) as refusal:
        stored(value if kind is bytes else value.decode())
    assert str(refusal.value) == (
        "parameters are 1.4 MB, the limit is 1 MB: store the data elsewhere and pass where it is"
    )


def test_a_little_too_large_is_said_in_bytes():
    with pytest.raises(TooLarge, match="result is 1,000,001 bytes, the limit is 1,000,000:"):
        pack(b"x" * 1_000_001, "result", codec.RESULT_LIMIT)
    assert len(pack(os.urandom(1_000_000), "result", codec.RESULT_LIMIT) or b"") == 1_000_000


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
    assert list(codec.record(FULL)) == NAMES.split()
    assert list(codec.record(Task(id="a", queue="q"))) == NAMES.split()


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
    found = parse_submission("{}", "line 1")
    assert all(getattr(found, name) is None for name in found.__struct_fields__)


def test_a_submission_is_read_whole():
    line = (
        '{"id": "a", "queue": "q", "command": ["ls"], "cwd": "/", "env": {"A": "1"}, '
        '"parameters": {"base64": "AP8="}, "priority": -5, "eta": "2026-11-15T20:33:20Z", '
        '"owner": "ann", "tags": ["x"], "held": true, "retries": 2}'
    )
    found = parse_submission(line, "line 1")
    assert (found.id, found.queue, found.command, found.cwd) == ("a", "q", ("ls",), "/")
    assert (found.env, found.parameters, found.priority) == ({"A": "1"}, b"\x00\xff", -5)
    assert (found.eta, found.owner, found.tags, found.held) == (1794774800.0, "ann", ("x",), True)
    assert found.retries == 2


@pytest.mark.parametrize(
    ("written", "seconds"), [("600", 600.0), ('"10m"', 600.0), ("0.5", 0.5), ("0", 0.0)]
)
def test_a_delay_is_a_number_or_a_duration(written, seconds):
    assert parse_submission(f'{{"delay": {written}}}', "line 1").delay == seconds


def test_an_eta_is_a_number_or_a_time():
    assert parse_submission('{"eta": 1794774800}', "line 1").eta == 1794774800.0
    assert parse_submission('{"eta": "2026-11-15T21:33:20+01:00"}', "l").eta == 1794774800.0


@pytest.mark.parametrize(
    ("line", "said"),
    by_what_is_said(
        ('{"quue": "a"}', "no field is called 'quue': allowed are id, queue, name"),
        ('{"queue": 3}', "queue: expected str | null, got int"),
        ('{"tags": ["a", 1]}', "tags[1]: expected str, got int"),
        ('{"command": "ls"}', "command: expected array | null, got str"),
        ('{"retries": -1}', "retries: expected int >= 0"),
        ('{"env": {"A": 1}}', "expected str, got int"),
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


def test_the_digits_that_python_refuses_are_those_that_pack_refuses():
    limit = sys.get_int_max_str_digits()
    assert unpack(stored(10 ** (limit - 1))) == 10 ** (limit - 1)
    with pytest.raises(BadInput):
        stored(10**limit)
