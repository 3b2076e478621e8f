"""What follows from the shape of a flow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stayer.core import limits
from stayer.core.errors import BadInput
from stayer.core.flows.model import (
    Ended,
    FlowInfo,
    Upstreams,
    again,
    check,
    decide_waiting,
    in_order,
)
from stayer.core.happenings import Retry, WaitAgain
from stayer.core.model import NewTask, Policy, State, Task


def new(id: str, *after: str, behind: tuple[str, ...] = ()) -> NewTask:
    return NewTask(id=id, queue="q", after=after, behind=behind)


def waiting(when_failed: str = "cancel") -> Task:
    return Task("d", "q", state="waiting", policy=Policy(when_failed=when_failed))  # type: ignore[arg-type]


def test_what_comes_after_another_stands_behind_it() -> None:
    assert in_order({"c": ["b"], "b": ["a", "elsewhere"], "a": []}) == ["a", "b", "c"]


def test_a_circle_is_named() -> None:
    with pytest.raises(BadInput, match="in a circle: a → c → b → a"):
        check([new("a", "c"), new("b", "a"), new("c", "b"), new("d", "a")])
    with pytest.raises(BadInput, match="in a circle: a → a"):
        check([new("a", behind=("a",))])


def test_too_many_ties_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FLOW_TIES", 2)
    check([new("a"), new("b", "a"), new("c", "a")])
    with pytest.raises(BadInput, match="put one task in between"):
        check([new("a"), new("b", "a"), new("c", "a", "b")])


def test_a_task_waits_on_while_others_have_not_ended() -> None:
    assert decide_waiting(waiting(), [Ended("a", "complete")], left=1) is None
    change = decide_waiting(waiting(), [Ended("a", "complete")], left=0)
    assert change is not None
    assert change.to == "pending"


def test_how_one_ended_that_need_only_have_ended_does_not_matter() -> None:
    change = decide_waiting(waiting(), [Ended("a", "failed", anyhow=True)], left=0)
    assert change is not None
    assert change.to == "pending"


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_bad_end_is_told_from_which_it_came(state: State) -> None:
    change = decide_waiting(waiting(), [Ended("x", "complete"), Ended("a", state)], left=3)
    assert change is not None
    assert change.to == "cancelled"
    assert f"a, which is {state}" in str(change.effect.sets["error"])
    assert decide_waiting(waiting("run"), [Ended("a", state)], left=3) is None


def flow(**states: State) -> dict[str, Task]:
    return {id: Task(id, "q", state=state) for id, state in states.items()}


def test_a_flow_goes_on_from_where_it_failed() -> None:
    tasks = flow(a="complete", b="failed", c="cancelled", d="waiting")
    upstreams = {
        "a": Upstreams(),
        "b": Upstreams(("a",)),
        "c": Upstreams(("a", "b", "outside")),
        "d": Upstreams(("c",)),
    }
    plan = again(tasks, upstreams, {"outside": "started"}, now=0.0)
    assert [(task.id, happening) for task, happening in plan] == [
        ("b", Retry()),
        ("c", Retry(("b", "outside"))),
    ]


def test_what_was_held_for_a_failure_waits_once_more() -> None:
    tasks = flow(a="failed") | {"b": Task("b", "q", state="pending", held=True)}
    plan = again(tasks, {"a": Upstreams(), "b": Upstreams(("a",))}, {}, now=0.0)
    assert [happening for _, happening in plan] == [Retry(), WaitAgain(("a",))]


def test_a_line_that_is_retried_never_has_two_at_once() -> None:
    tasks = flow(a="failed", b="complete", c="failed", d="cancelled")
    line = {
        "a": Upstreams(),
        "b": Upstreams((), ("a",)),
        "c": Upstreams((), ("b",)),
        "d": Upstreams((), ("c",)),
    }
    assert [happening for _, happening in again(tasks, line, {}, now=0.0)] == [
        Retry(),
        Retry(("a",)),
        Retry(("c",)),
    ]


def test_what_is_retried_stands_behind_all_of_its_line_that_may_run() -> None:
    tasks = flow(
        a="failed", b="started", c="failed", d="waiting", e="waiting", f="waiting", other="started"
    )
    tasks["d"] = replace(tasks["d"], held=True)
    line = {
        "a": Upstreams(),
        "b": Upstreams((), ("a",)),
        "c": Upstreams((), ("b",)),
        "d": Upstreams(("bad", "good"), ("c",)),
        "e": Upstreams((), ("d",)),
        "f": Upstreams(("other",)),
        "other": Upstreams(),
    }
    plan = again(tasks, line, {"bad": "failed", "good": "complete"}, now=0.0)
    assert [(task.id, happening) for task, happening in plan] == [
        ("a", Retry(("b",))),
        ("c", Retry(("b", "a"))),
        ("d", WaitAgain(("c", "bad"), held=True)),
    ]


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"complete": 2}, "complete"),
        ({"complete": 2, "cancelled": 1}, "cancelled"),
        ({"complete": 2, "cancelled": 1, "failed": 1}, "failed"),
        ({"failed": 1, "waiting": 1}, "waiting"),
        ({"failed": 1, "waiting": 1, "pending": 1}, "pending"),
        ({"failed": 1, "waiting": 1, "pending": 1, "reserved": 1}, "started"),
    ],
)
def test_the_state_of_a_flow(counts: dict[State, int], state: State) -> None:
    assert FlowInfo(id="f", name="f", counts={"p": counts}).state == state
