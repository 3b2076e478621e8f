"""Changing what waits, retrying with changes, and clones: on every store."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.errors import BadInput, Refused
from stayer.core.flows.model import NewFlow, Part
from stayer.core.happenings import Edit, Fail
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Filter, Policy, Value
from stayer.core.submit.edits import Edits
from stayer.core.worker_model import Handles
from stayer.service.control import edits as edit_control
from stayer.store import Store
from tests.contract.builders import (
    VALUES,
    Clock,
    apply,
    check_counts,
    get,
    new,
    register,
    started,
    submit,
    take,
    take_one,
)

LONG = "x" * 5000


def change(**fields: Any) -> Edits:
    return Edits(fields=fields)


@pytest.mark.parametrize("before", [None, 1, {"a": LONG}, b"raw", {"n": [1, 2]}], ids=repr)
def test_parameters_become_others_whatever_they_were(store: Store, before: Value) -> None:
    for number, after in enumerate([*VALUES, {"b": LONG}]):
        if isinstance(after, dict) and after.keys() == {"base64"}:
            continue
        id = f"t{number}"
        submit(store, new(id, parameters=before))
        assert edit_control.edit(store, id, change(parameters=after)).parameters == after
        assert get(store, id).parameters == after


def test_single_parameters_are_set_and_the_others_stay(store: Store) -> None:
    submit(
        store, new("t", parameters={"lr": 0.1, "seed": 1}), new("none"), new("list", parameters=[1])
    )
    edits = Edits(parameters={"lr": 0.05})

    assert edit_control.edit(store, "t", edits).parameters == {"lr": 0.05, "seed": 1}
    assert edit_control.edit(store, "none", edits).parameters == {"lr": 0.05}
    with pytest.raises(BadInput, match="are a list"):
        edit_control.edit(store, "list", edits)


@pytest.mark.parametrize("settings", [{}, {"key_limit": 5}, {"fair": "owner"}], ids=repr)
def test_a_task_that_is_to_run_something_else_goes_to_whoever_runs_that(
    store: Store, settings: dict[str, Any]
) -> None:
    register(store)
    if settings:
        store.set_queue("q", **settings)
    submit(store, new("t", command=("one", "1")), new("other", command=("one", "2")))
    one, two = Handles(programs=("one",)), Handles(programs=("two",))

    edit_control.edit(store, "t", change(command=("two", "3")))

    assert [task.id for task in take(store, limit=9, handles=one)] == ["other"]
    [task] = take(store, limit=9, handles=two)
    assert (task.id, task.command) == ("t", ("two", "3"))
    assert not take(store, limit=9)
    check_counts(store)


def test_a_command_takes_the_place_of_a_name_and_the_other_way_round(store: Store) -> None:
    register(store)
    submit(store, new("t", name="f"))

    assert edit_control.edit(store, "t", change(command=("ls",))).name is None
    assert not take(store, handles=Handles(names=("f",)))
    back = edit_control.edit(store, "t", change(name="f"))
    assert (back.name, back.command) == ("f", None)
    assert take(store, handles=Handles(names=("f",)))


def test_an_eta_sends_it_away_and_brings_it_back(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("t"))

    later = edit_control.edit(store, "t", change(delay=100.0))
    assert (later.state, later.eta) == ("scheduled", clock.now + 100)
    assert not take(store)
    assert store.promote(10) == pytest.approx(clock.now + 100)
    check_counts(store)

    later = edit_control.edit(store, "t", change(eta=clock.now + 50))
    assert (later.state, later.eta) == ("scheduled", clock.now + 50)
    clock.advance(60)
    store.promote(10)
    assert get(store, "t").state == "pending"

    edit_control.edit(store, "t", change(delay=100.0))
    soon = edit_control.edit(store, "t", change(eta=None))
    assert (soon.state, soon.eta) == ("pending", None)
    assert take_one(store).id == "t"
    check_counts(store)


def test_what_expires_can_be_given_more_time(store: Store, clock: Clock) -> None:
    submit(store, new("t", expire=10.0), new("u"))

    edit_control.edit(store, "t", change(expire=100.0))
    edit_control.edit(store, "u", change(expire=10.0))
    clock.advance(50)
    store.promote(10)

    assert (get(store, "t").state, get(store, "u").state) == ("pending", "failed")
    assert edit_control.edit(store, "t", change(start_before=None)).start_before is None
    clock.advance(500)
    store.promote(10)
    assert get(store, "t").state == "pending"


def test_what_waits_for_others_can_be_edited_and_goes_on_waiting(store: Store) -> None:
    submit(store, new("up", queue="u"))
    submit(store, new("t", after=("up",), policy=Policy(near="up", near_wait=5.0)))

    task = edit_control.edit(store, "t", change(delay=5.0, time_limit=60.0, tags=["a"]))

    assert (task.state, task.tags, task.upstreams) == ("waiting", ("a",), 1)
    assert task.policy == Policy(near="up", near_wait=5.0, time_limit=60.0)
    assert store.waits("t", 5) == (["up"], 1)


def test_priority_hooks_and_tags_change_and_can_be_found(store: Store) -> None:
    register(store)
    submit(store, new("first"), new("t", tags=("old",), notify=("ended:http://127.0.0.1:1/",)))

    task = edit_control.edit(
        store, "t", change(priority=5, tags=["new"], notify=None, env={"A": "1"})
    )

    assert (task.priority, task.notify, task.env) == (5, (), {"A": "1"})
    assert [each.id for each in store.find(Filter(tags=("new",)), None, 9).tasks] == ["t"]
    assert not store.find(Filter(tags=("old",)), None, 9).tasks
    assert take_one(store).id == "t"


def test_the_history_says_what_was_changed(store: Store) -> None:
    submit(
        store, new("t", command=("train", "--lr", "0.1"), parameters={"n": 1}, env={"S": "secret"})
    )

    edit_control.edit(
        store, "t",
        change(command=("train", "--lr", "0.05"), time_limit=7200.0, parameters={"n": 2}, env=None),
    )  # fmt: skip

    event = store.events("t")[-1]
    assert event.event == "edited"
    assert event.note == (
        "command train --lr 0.1 → train --lr 0.05; env; time_limit none → 2h 00m; "
        'parameters {"n":1} → {"n":2}'
    )


def test_the_same_again_changes_nothing(store: Store) -> None:
    submit(store, new("t", command=("a",), parameters={"n": 1}, policy=Policy(time_limit=0.0)))
    events = store.events("t")

    edit_control.edit(store, "t", change(command=["a"], parameters={"n": 1}, priority=0))

    assert store.events("t") == events
    assert get(store, "t").policy.time_limit == 0


def test_only_what_waits_can_be_edited(store: Store) -> None:
    register(store)
    task = started(store, id="t")
    with pytest.raises(Refused, match=r"is started: what runs can't be edited"):
        edit_control.edit(store, "t", change(priority=1))
    apply(store, task, Fail(Fault("Boom")))
    with pytest.raises(Refused, match=r"is failed: it has ended. Retry it with these changes"):
        edit_control.edit(store, "t", change(priority=0))


@pytest.mark.parametrize("field", ["queue", "id", "owner", "key", "unique", "after", "held"])
def test_what_makes_it_another_task_stays(store: Store, field: str) -> None:
    submit(store, new("t"))
    with pytest.raises(BadInput, match=f"{field} of a task that is there can't be changed"):
        edit_control.edit(store, "t", change(**{field: "x"}))


def test_whoever_takes_it_first_has_what_was_there(store: Store) -> None:
    """An edit that was decided from what has been taken meanwhile does nothing."""
    register(store)
    submit(store, new("t", command=("old",)))
    edit = decide(get(store, "t"), Edit(sets={"command": ("new",)}, note="command"))

    assert take_one(store).command == ("old",)
    assert store.commit([edit]) == [None]
    assert get(store, "t").command == ("old",)


def test_a_retry_with_changes_is_one_step(store: Store) -> None:
    register(store)
    task = started(store, id="t", command=("train", "1"), parameters={"lr": 1, "n": 2})
    apply(store, task, Fail(Fault("Boom"), "oom"))

    edits = Edits(fields={"command": ["other"], "memory_limit": 10**9}, parameters={"lr": 2})
    again = edit_control.retry(store, "t", edits=edits)

    assert (again.state, again.command, again.parameters) == (
        "pending",
        ("other",),
        {"lr": 2, "n": 2},
    )
    assert again.policy.memory_limit == 10**9
    assert not take(store, handles=Handles(programs=("train",)))
    assert take_one(store).attempt == 2
    note = store.events("t")[-2].note
    assert note is not None
    assert note.startswith("retried: command train 1 → other; memory_limit none → 1 GB")


def test_a_retry_may_be_given_another_time(store: Store, clock: Clock) -> None:
    register(store)
    apply(store, started(store, id="t"), Fail(Fault("Boom")))

    again = edit_control.retry(store, "t", edits=change(delay=60.0))

    assert (again.state, again.eta) == ("scheduled", clock.now + 60)


def test_a_clone_is_a_task_of_its_own(store: Store) -> None:
    register(store)
    policy = Policy(retries=2, time_limit=60.0, retry_wait=5.0)
    known: dict[str, Any] = {
        "command": ("train", "1"), "cwd": "/srv", "env": {"A": "1"}, "parameters": {"lr": 1},
        "tags": ("night",), "priority": 3, "key": "k", "policy": policy, "owner": "ann",
    }  # fmt: skip
    apply(store, started(store, id="t", **known), Fail(Fault("Boom"), final=True))

    answer = edit_control.clone(
        store, "t", Edits(fields={"tags": ["day"]}, parameters={"lr": 2}), owner="bob"
    )

    task = get(store, answer.task.id)
    assert answer.fresh
    assert task.id != "t"
    assert (task.cloned_from, task.state, task.attempt, task.error) == ("t", "pending", 0, None)
    assert (task.command, task.cwd, task.env) == (("train", "1"), "/srv", {"A": "1"})
    assert (task.parameters, task.tags, task.owner) == ({"lr": 2}, ("day",), "bob")
    assert (task.priority, task.key, task.policy) == (3, "k", policy)
    assert get(store, "t").cloned_from is None


def test_a_clone_of_what_has_a_unique_word_waits_for_its_turn(store: Store) -> None:
    submit(store, new("t", unique="one"))

    with pytest.raises(Refused, match=r"not cloned: task t \(pending\) has the same unique word"):
        edit_control.clone(store, "t", Edits())
    assert edit_control.clone(store, "t", change(unique=None)).fresh
    assert edit_control.clone(store, "t", change(unique="two", id="u")).task.id == "u"
    with pytest.raises(Refused, match="not cloned"):
        edit_control.clone(store, "t", change(unique=None, id="u", command=["x"]))


def test_a_clone_runs_after_what_the_first_one_ran_after(store: Store) -> None:
    submit(store, new("up", queue="u"))
    submit(store, new("t", after=("up",), policy=Policy(near="up")))

    clone = edit_control.clone(store, "t", Edits()).task
    alone = edit_control.clone(store, "t", change(after=None)).task

    assert (clone.state, clone.policy.near, store.waits(clone.id, 5)[0]) == (
        "waiting",
        "up",
        ["up"],
    )
    assert (alone.state, alone.policy.near) == ("pending", None)


def test_a_clone_belongs_to_no_flow(store: Store) -> None:
    flow = NewFlow(id="f", name="f", parts=(Part(name="a", queue="q"), Part(name="b", queue="q")))
    first, second = new("f.a", flow="f", part="a"), new("f.b", flow="f", part="b", after=("f.a",))
    store.submit_flow(flow, [first, second])

    assert edit_control.clone(store, "f.a", Edits()).task.flow is None
    with pytest.raises(Refused, match=r"gets the results of f\.a as a part of flow f"):
        edit_control.clone(store, "f.b", Edits())
