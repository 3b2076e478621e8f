"""Fields of the user's own, and finding tasks by them and by their parameters: on every store."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stayer.core.errors import BadInput, Refused, TooLarge
from stayer.core.happenings import Done, SetMeta
from stayer.core.lifecycle import decide
from stayer.core.model import JSON, Filter, Value
from stayer.core.submit.edits import Edits
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    get,
    new,
    register,
    started,
    submit,
    taken,
)

LARGE = "lorem ipsum " * 1000
"""So long that a store compresses it."""
VALUES: dict[str, Value] = {
    "text": {"a": "3", "path": "s3://b/é", "quote": 'it\'s "so" \\ ☃'},
    "whole": {"a": 3, "yes": True, "none": None},
    "real": {"a": 3.0, "yes": "true", "none": "null"},
    "other": {"a": 4, "yes": 1, "none": 0},
    "inside": {"a": {"b": [{"c": "x"}, 7]}, "a.b": "dotted", "0": "zero"},
    "large": {"filler": LARGE, "a": 3, "b": {"c": "deep"}},
    "large-other": {"filler": LARGE, "a": 5},
    "list": [{"a": 3}],
    "scalar": 3,
    "bytes": b'{"a": 3}',
    "nothing": None,
}
EXPECTED = [
    ("a=3", "text whole real large"),
    ('a="3"', "text"),
    ("a=3.0", "whole real large"),
    ("path=s3://b/é", "text"),
    ("path=s3://b/", ""),
    ('quote=it\'s "so" \\ ☃', "text"),
    ("yes=true", "whole real"),
    ("yes=1", "other"),
    ("none=null", "whole real"),
    ("a.b[0].c=x", "inside"),
    ("a.b[1]=7", "inside"),
    ("a.b[2]=7", ""),
    ('["a.b"]=dotted', "inside"),
    ("0=zero", "inside"),
    ("[0].a=3", "list"),
    ("b.c=deep", "large"),
    ("A=3", ""),
    ("missing=", ""),
]


def found(store: Store, **conditions: object) -> set[str]:
    return {task.id for task in control.find_all(store, Filter(**conditions))}  # type: ignore[arg-type]


def test_tasks_are_found_by_what_their_parameters_have(store: Store) -> None:
    submit(store, *(new(id, parameters=value) for id, value in VALUES.items()))
    for condition, ids in EXPECTED:
        assert (condition, found(store, where=(condition,))) == (condition, set(ids.split()))
    assert found(store, where=("a=3", "b.c=deep")) == {"large"}
    assert found(store, where=("a=3",), queues=("q",), states=("pending",)) == {
        "text", "whole", "real", "large"
    }  # fmt: skip
    assert found(store, where=("a=3",), ids=("whole", "other")) == {"whole"}
    assert found(store, where=("a=3",), prefix="la") == {"large"}


def test_they_are_found_page_by_page(store: Store, clock: Clock) -> None:
    for number in range(24):
        clock.advance(1)
        filler = LARGE if number % 2 else ""
        submit(store, new(f"t{number:02}", parameters={"a": number % 3, "filler": filler}))
    wanted = [f"t{number:02}" for number in reversed(range(24)) if number % 3 == 1]
    for queues in ((), ("q",)):
        cursor, seen = None, []
        while True:
            page = store.find(Filter(where=("a=1",), queues=queues), cursor, 3)
            seen += [task.id for task in page.tasks]
            cursor = page.next
            if cursor is None:
                break
        assert seen == wanted


def test_fields_of_ones_own_are_kept_and_found(store: Store) -> None:
    fields: dict[str, Mapping[str, JSON] | None] = {
        "one": {"team": "vision", "epoch": 3, "nested": {"a": [1, {"b": None}], "é": "☃"}},
        "two": {"team": "speech", "epoch": "3"},
        "none": None,
    }
    submit(store, *(new(id, meta=meta) for id, meta in fields.items()))
    for id, meta in fields.items():
        assert get(store, id).meta == meta
    assert found(store, meta=("team=vision",)) == {"one"}
    assert found(store, meta=("epoch=3",)) == {"one", "two"}
    assert found(store, meta=("epoch=3", "team=speech")) == {"two"}
    assert found(store, meta=("nested.a[0]=1",)) == {"one"}
    assert found(store, meta=("team=vision",), where=("team=vision",)) == set()


def test_a_task_that_was_read_can_be_altered_without_altering_others(store: Store) -> None:
    submit(store, new("a", meta={"n": {"m": 1}}), new("b", meta={"n": {"m": 1}}))
    [one, other] = store.get(["a", "b"])
    assert one is not None
    assert other is not None
    assert one.meta is not None
    one.meta["n"]["m"] = 2  # type: ignore[index,call-overload]
    assert other.meta == get(store, "b").meta == {"n": {"m": 1}}


def test_some_are_set_and_the_others_stay(store: Store, clock: Clock) -> None:
    register(store, "w")
    submit(store, new("waits", meta={"a": 1, "b": 2}, delay=60))
    apply(store, taken(store, "w", id="ended", unique="word"), Done("result"))
    started(store, "w", id="runs", unique="word")
    ended = get(store, "ended")
    clock.advance(5)
    for id in ("waits", "runs", "ended"):
        control.set(store, id, meta={"a": None, "c": "new"})
        control.set(store, id, meta={"c": "new"})  # nothing new
        task = get(store, id)
        assert task.meta == ({"b": 2, "c": "new"} if id == "waits" else {"c": "new"})
        assert [each.note for each in store.events(id) if each.event == "meta"] == ["a=null c=new"]
    # It ended when it did, and as it did.
    after = get(store, "ended")
    assert (after.state, after.result, after.updated, after.finished_at) == (
        ended.state, ended.result, ended.updated, ended.finished_at
    )  # fmt: skip
    check_counts(store)
    control.set(store, "runs", meta={"c": None}, priority=3)
    assert (get(store, "runs").meta, get(store, "runs").priority) == (None, 3)
    with pytest.raises(Refused):
        control.set(store, "ended", priority=3)


def test_what_ended_tells_nobody_again(store: Store) -> None:
    register(store, "w")
    first = started(store, "w", id="first", notify=("ended:http://127.0.0.1:1/",))
    submit(store, new("then", after=("first",)))
    apply(store, first, Done())
    events, notices = store.events("then"), store.notices("first", None, None, 9)
    control.set(store, "first", meta={"a": 1})
    assert store.events("then") == events
    assert store.notices("first", None, None, 9) == notices


def test_a_task_that_sets_some_and_somebody_else_lose_nothing(store: Store) -> None:
    register(store, "w")
    held = started(store, "w", id="t", meta={"a": 1})
    mine = decide(held, SetMeta({"b": 2}, by_task=True))
    control.set(store, "t", meta={"c": 3})
    assert store.commit([mine]) == [None]  # it is to look again
    control.settle(store, held, SetMeta({"b": 2}, by_task=True))
    assert get(store, "t").meta == {"a": 1, "b": 2, "c": 3}
    control.settle(store, held, Done())  # though it knows nothing of all that
    assert get(store, "t").state == "complete"
    assert [each.event for each in store.events("t")].count("meta") == 1


def test_too_much_of_it_is_refused_and_nothing_is_lost(store: Store) -> None:
    submit(store, new("t", meta={"a": 1}))
    with pytest.raises(TooLarge, match="meta"):
        control.set(store, "t", meta={"b": "x" * 5000})
    with pytest.raises(BadInput, match="are too many"):
        control.set(store, "t", meta={f"n{number}": 1 for number in range(101)})
    with pytest.raises(BadInput, match="without ="):
        control.set(store, "t", meta={"a=b": 1})
    assert get(store, "t").meta == {"a": 1}


def test_clones_and_edits_keep_what_they_do_not_name(store: Store) -> None:
    submit(store, new("t", meta={"a": 1, "b": 2}))
    assert edit_control.edit(store, "t", Edits(fields={"meta": {"a": None, "c": 3}})).meta == {
        "b": 2, "c": 3
    }  # fmt: skip
    copy = edit_control.clone(store, "t", Edits(fields={"meta": {"c": 4}})).task
    assert get(store, copy.id).meta == {"b": 2, "c": 4}
