"""`stayer edit`, `clone`, and `retry` with changes."""

from __future__ import annotations

import json

import pytest

from stayer.core.happenings import Fail
from stayer.core.model import Fault
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, get, new, started, submit


@pytest.fixture(autouse=True)
def tasks(store: Store, worker: str) -> None:
    submit(store, new("waits", command=("train", "--lr", "1"), parameters={"lr": 1}))
    started(store, id="runs", queue="q", priority=9)
    failed = started(store, id="failed", command=("train", "1"), cwd="/srv", priority=9)
    apply(store, failed, Fail(Fault("E")))


def test_edit_changes_what_waits(stayer: Here, store: Store) -> None:
    done = stayer(
        "edit", "waits", "-p", "lr=0.05", "-p", "name=adam", "--time-limit", "4h", "--tag", "a",
        "--", "train", "--lr", "0.05",
    ).works()  # fmt: skip

    assert done.lines == ["waits edited"]
    task = get(store, "waits")
    assert task.command == ("train", "--lr", "0.05")
    assert task.parameters == {"lr": 0.05, "name": "adam"}
    assert (task.policy.time_limit, task.tags) == (14400, ("a",))
    assert "edited" in stayer("show", "waits").works().out


def test_clear_takes_a_field_back_to_its_default(stayer: Here, store: Store) -> None:
    stayer("edit", "waits", "--eta", "+1h", "--time-limit", "1h").works()
    assert get(store, "waits").state == "scheduled"

    stayer("edit", "waits", "--clear", "eta", "--clear", "time-limit").works()

    task = get(store, "waits")
    assert (task.state, task.policy.time_limit) == ("pending", None)
    stayer("edit", "waits", "--clear", "eta", "--eta", "+1h").refuses("--clear eta")


def test_edit_refuses_what_runs_and_says_what_to_do(stayer: Here) -> None:
    stayer("edit", "runs", "--priority", "1").refuses("can't be edited", "stayer set")
    stayer("edit", "failed", "--priority", "1").refuses("it has ended", "clone")
    stayer("edit", "waits").refuses("say what to change")
    stayer("edit", "waits", "--").refuses("no command after --")
    stayer("edit", "waits", "-p", "lr").refuses("write NAME=VALUE")


def test_words_after_retry_change_the_command_or_nothing_happens(
    stayer: Here, store: Store
) -> None:
    stayer("retry", "failed", "nope", "--", "train", "--lr", "0.05").refuses("no task 'nope'")
    assert get(store, "failed").state == "failed"

    stayer("retry", "failed", "--", "train", "--lr", "0.05").works()

    task = get(store, "failed")
    assert (task.state, task.command, task.cwd) == ("pending", ("train", "--lr", "0.05"), "/srv")
    assert store.events("failed")[-1].note == "retried: command train 1 → train --lr 0.05"


def test_words_without_dashes_are_no_command(stayer: Here, store: Store) -> None:
    stayer("retry", "failed", "--memory-limit", "nonsense").refuses("--memory-limit")
    assert get(store, "failed").state == "failed"


def test_retry_may_change_limits_and_parameters(stayer: Here, store: Store) -> None:
    stayer("retry", "failed", "--memory-limit", "2G", "--data", '{"n": 1}').works()

    task = get(store, "failed")
    assert (task.policy.memory_limit, task.parameters) == (2_000_000_000, {"n": 1})


def test_clone_submits_it_again_with_changes(stayer: Here, store: Store) -> None:
    done = stayer("clone", "failed", "--retries", "2", "--", "train", "2").works()

    [id] = done.lines
    task = get(store, id)
    assert (task.command, task.cwd, task.priority) == (("train", "2"), "/srv", 9)
    assert (task.state, task.owner, task.cloned_from) == ("pending", "ann", "failed")
    assert task.policy.retries == 2
    assert "clone of  failed" in stayer("show", id).works().out
    assert get(store, "failed").state == "failed"


def test_a_clone_can_have_an_id_and_a_queue(stayer: Here, store: Store) -> None:
    done = stayer("clone", "waits", "--id", "two", "-q", "other", "--hold", "--json").works()
    shown = json.loads(done.out)
    assert (shown["id"], shown["queue"], shown["held"], shown["fresh"]) == (
        "two", "other", True, True,
    )  # fmt: skip
    stayer("clone", "waits", "--id", "two").refuses("not cloned", "other")
    stayer("clone", "nope").refuses("no task 'nope'")


def test_parameters_can_be_given_one_by_one(stayer: Here, store: Store) -> None:
    stayer(
        "add", "--id", "n", "--name", "f", "-p", "lr=0.1", "-p", "opt=adam", "-p", 's="1"'
    ).works()
    assert get(store, "n").parameters == {"lr": 0.1, "opt": "adam", "s": "1"}
    stayer("add", "--id", "m", "--data", '{"a": 1, "b": 2}', "-p", "b=[3]").works()
    assert get(store, "m").parameters == {"a": 1, "b": [3]}
    stayer("add", "--data", "[1]", "-p", "b=3").refuses("an object")
    stayer("add", "-p", "a=1", "-p", "a=2").refuses("twice")


@pytest.mark.parametrize("verb", ["clone", "retry"])
def test_a_parameter_that_a_command_never_had_is_noted(stayer: Here, verb: str) -> None:
    stayer(verb, "failed", "-p", "lr=0.05").works("it still runs train 1: parameters (lr)")


def test_an_edit_notes_only_parameters_that_are_new_to_a_command(stayer: Here) -> None:
    stayer("edit", "waits", "-p", "lr=0.05").works()
    stayer("edit", "waits", "-p", "momentum=0.9").works("parameters (momentum)")
    stayer("edit", "waits", "-p", "depth=2", "--", "train", "--depth", "2").works()
