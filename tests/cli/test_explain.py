"""`stayer explain`."""

from __future__ import annotations

import json

import pytest

from stayer.core.happenings import Done, Snooze
from stayer.core.refused_tasks import REFUSED
from stayer.service.control import queues as queue_control
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, new, register, started, submit


def test_all_reasons_are_printed(stayer: Here, store: Store) -> None:
    submit(store, new("first"), new("t"))
    queue_control.pause_queue(store, "q")
    said = stayer("explain", "t").works().out.splitlines()
    assert said[0] == "task t is pending"
    assert said[1].startswith("- queue q is paused")
    assert any("no worker listens to queue q" in line for line in said)
    assert "- one task of its queue is taken first" in "\n".join(said)


def test_when_it_starts_and_ends(stayer: Here, store: Store) -> None:
    register(store)
    apply(store, started(store, name="n"), Done())
    submit(store, new("t", name="n"))
    said = stayer("explain", "t").works().out
    assert "- it is the next to be taken" in said
    assert "starts about now" in said
    assert "(a guess, from the only one of its kind)" in said


def test_no_start_is_forecast_while_somebody_must_act(stayer: Here, store: Store) -> None:
    register(store)
    refused = Snooze(60.0, f"{REFUSED}: it needs code to be installed")
    task = apply(store, started(store, name="n"), refused)
    said = stayer("explain", task.id).works().out
    assert "it needs code to be installed" in said
    assert "starts about" not in said


@pytest.mark.parametrize(
    ("number", "basis"),
    [(2, "a guess, from the 2 of its kind that there were"), (3, "as the last 3 of its kind did")],
)
def test_it_says_how_sure_that_is(stayer: Here, store: Store, number: int, basis: str) -> None:
    register(store)
    for _ in range(number):
        apply(store, started(store, name="n"), Done())
    submit(store, new("t", name="n"))
    assert f"({basis})" in stayer("explain", "t").works().out


def test_the_same_as_json(stayer: Here, store: Store) -> None:
    register(store)
    submit(store, new("t"))
    shown = json.loads(stayer("explain", "t", "--json").works().out)
    assert shown["id"] == "t"
    assert shown["ahead"] == 0
    assert [each["reason"] for each in shown["reasons"]] == ["next"]
    assert shown["forecast"]["starts"]["likely"].endswith("Z")
    assert shown["forecast"]["ends"] is None


def test_an_unknown_task_is_refused(stayer: Here, store: Store) -> None:
    stayer("explain", "nobody").refuses("no task 'nobody'")
