"""What is said of a task that was just accepted is its record, whatever it has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core import codec
from stayer.core.model import Policy, Task
from stayer.core.submit.accepted_json import encode_accepted

PLAIN = Task("t", "q", parameters={"n": 1}, owner="ann", created=1e9, updated=1e9)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"id": 'a"b\\c\u20ac'},
        {"queue": 'q"\\', "name": "n\u20ac", "owner": None, "key": "k"},
        {"parameters": None},
        {"parameters": [1.5, "\0\n", {"a": None}]},
        {"parameters": b"\0\xff"},
        {"parameters": "created"},
        {"command": ("a", "b"), "cwd": "/", "env": {"A": "b"}},
        {"tags": ("x", "y"), "priority": -3, "held": True},
        {"eta": 2e9, "start_before": 3e9, "state": "scheduled"},
        {"created": 1.25, "updated": 7.75},
        {"policy": Policy(retries=3, retry_on=("oom",), time_limit=5.0)},
        {"state": "waiting", "upstreams": 2, "flow": "f", "part": "p", "dependents": True},
        {"unique": "u", "unique_while": "waiting", "unique_for": 5.0},
    ],
)
def test_it_is_the_record_and_that_it_is_fresh(changed: dict[str, Any]) -> None:
    for id in ("first", "second"):  # the second finds what is kept of the first
        task = replace(PLAIN, **{"id": id, **changed})
        shown = json.loads(encode_accepted(task))
        assert shown == {**codec.record(task), "fresh": True}
        assert list(shown) == [*codec.record(task), "fresh"]


def test_what_differs_is_not_taken_from_another() -> None:
    for task in (PLAIN, replace(PLAIN, owner="bob"), replace(PLAIN, policy=Policy(retries=1))):
        assert json.loads(encode_accepted(task)) == {**codec.record(task), "fresh": True}
