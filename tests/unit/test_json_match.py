"""Conditions on JSON, as people write them. What they find is seen in tests/contract."""

from __future__ import annotations

import pytest

from stayer.core.errors import BadInput
from stayer.core.filters import check_filter
from stayer.core.json_match import look_up, parse, parse_path
from stayer.core.model import JSON, Filter


@pytest.mark.parametrize(
    "written", ["", "a", "=3", "a..b=3", "a[x]=3", 'a={"b": 1}', "a[0=1", "a=" + "x" * 1000]
)
@pytest.mark.parametrize("name", ["meta", "where"])
def test_a_condition_that_makes_no_sense_is_refused(name: str, written: str) -> None:
    with pytest.raises(BadInput, match=name):
        check_filter(Filter(**{name: (written,)}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "path", "text"),
    [
        ("a=b=c", ("a",), "b=c"),
        ("a=", ("a",), ""),
        ('a="3"', ("a",), "3"),
        ("a.b-c[0][12].d e=x", ("a", "b-c", 0, 12, "d e"), "x"),
        ('["a.b=\\"c\\""].d=x', ('a.b="c"', "d"), "x"),
    ],
)
def test_a_path_leads_into_objects_and_lists(
    written: str, path: tuple[str | int, ...], text: str
) -> None:
    condition = parse("where", written)
    assert (condition.path, condition.text) == (path, text)


def test_a_path_alone_finds_what_is_there() -> None:
    value: JSON = {"a": [1, {"b": None}]}
    assert look_up(value, parse_path("a[0]")) == 1
    assert look_up(value, parse_path("a[1].b")) is None
    with pytest.raises(LookupError):
        look_up(value, parse_path("a[2]"))
    with pytest.raises(BadInput):
        parse_path("a[")
