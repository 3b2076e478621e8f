"""Values come back as they were, and what can't be stored is refused with reasons."""

from __future__ import annotations

import enum
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, Struct, UnsetType

from stayer.core import codec
from stayer.core.codec import PARAMETERS_LIMIT, pack, unpack
from stayer.core.errors import BadInput, TooLarge

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
    form = codec._compress(b"{not json}" * 1000, codec._JSON)
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


class Count(int):
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
        ([Word("a"), Measure(1.5), Count(2)], '["a",1.5,2]'),
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


def test_the_digits_that_python_refuses_are_those_that_pack_refuses():
    limit = sys.get_int_max_str_digits()
    assert unpack(stored(10 ** (limit - 1))) == 10 ** (limit - 1)
    with pytest.raises(BadInput):
        stored(10**limit)
