"""Store.turn: commit, then reserve, in one round trip."""

from __future__ import annotations

import random

import pytest

from stayer.core.errors import LeaseLost
from stayer.core.happenings import Ask, Done, Fail, Interrupt
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Policy, Value
from stayer.core.worker_model import EVERYTHING, Handles
from stayer.store import Store
from tests.contract.builders import (
    apply,
    check_counts,
    counts,
    fill,
    get,
    ids,
    new,
    register,
    submit,
    take,
    taken,
)


def test_a_turn_commits_and_reserves(store: Store) -> None:
    register(store)
    names = fill(store, 5)
    held = take(store, limit=2)

    changes = [decide(task, Done(task.id)) for task in held]
    applied, fresh = store.turn("w", changes, ["q"], 2, EVERYTHING)

    assert applied == [True, True]
    assert [get(store, name).result for name in names[:2]] == names[:2]
    assert ids(fresh) == names[2:4]
    assert all((task.state, task.worker, task.attempt) == ("reserved", "w", 1) for task in fresh)
    assert ids(store.holdings("w")) == names[2:4]
    assert counts(store) == {"complete": 2, "reserved": 2, "pending": 1}
    check_counts(store)


RESULTS: list[Value] = [
    None,
    7,
    "",
    " spaces behind  ",
    "ä€😀",
    "\0",
    {"a": [1.5, None]},
    "x" * 256,
]


@pytest.mark.parametrize("results", [RESULTS[:-1], RESULTS, [*RESULTS, b"bytes "], [None]])
def test_many_that_came_together_end_together_in_any_order(
    store: Store, results: list[Value]
) -> None:
    register(store)
    names = fill(store, 120)
    held = take(store, limit=120)
    wanted = {task.id: results[number % len(results)] for number, task in enumerate(held)}
    unfinished, asked, gone = held[40], held[70], held[90]
    apply(store, asked, Ask("stack"))
    apply(store, gone, Done("before"))
    ended = [task for task in held if task is not unfinished]
    random.Random(7).shuffle(ended)

    applied, _ = store.turn(
        "w", [decide(task, Done(wanted[task.id])) for task in ended], ["q"], 0, EVERYTHING
    )

    assert applied == [task not in (asked, gone) for task in ended]
    done = [task.id for task, did in zip(ended, applied, strict=True) if did]
    assert {name: get(store, name).result for name in done} == {name: wanted[name] for name in done}
    assert get(store, gone.id).result == "before"
    assert counts(store) == {"complete": 118, "reserved": 2}
    events = [event for event in store.watch(0, 0.0, 1000) if event.event == "complete"]
    assert sorted(event.id for event in events) == sorted([*done, gone.id])
    own = {event.id: event.number for event in events}
    assert len(set(own.values())) == len(own)
    for name in names:
        said = [event.event for event in store.events(name)]
        assert said[:2] == ["pending", "reserved"]
        assert said[2:] == ["complete"] * (name in own) + ["stack"] * (name == asked.id), said
        numbers = [event.number for event in store.events(name)]
        assert numbers == sorted(set(numbers))
    check_counts(store)


def test_a_refused_change_does_not_keep_a_turn_from_reserving(store: Store) -> None:
    register(store)
    held = taken(store)
    apply(store, held, Done("first"))
    running = taken(store)
    [name] = fill(store, 1)
    changes = [decide(held, Done("second")), decide(running, Done())]
    applied, fresh = store.turn("w", changes, ["q"], 1, EVERYTHING)
    assert applied == [False, True]
    assert ids(fresh) == [name]
    assert get(store, held.id).result == "first"


def test_the_commit_comes_first(store: Store) -> None:
    register(store)
    store.set_queue("q", limit=1)
    held = taken(store)
    [name] = fill(store, 1)
    _, fresh = store.turn("w", [decide(held, Done())], ["q"], 1, EVERYTHING)
    assert ids(fresh) == [name]


def test_what_a_turn_hands_back_may_be_taken_in_it(store: Store) -> None:
    register(store)
    held = taken(store)
    applied, fresh = store.turn("w", [decide(held, Interrupt())], ["q"], 1, EVERYTHING)
    assert applied == [True]
    assert [(task.id, task.attempt) for task in fresh] == [(held.id, 2)]


def test_a_notice_tells_of_a_task_as_it_was_before_the_turn_took_it_again(store: Store) -> None:
    register(store)
    held = taken(store, notify=("retrying:hook",), policy=Policy(retries=1))
    failure = Fail(Fault("ValueError", "no"), after=0.0)
    _, [again] = store.turn("w", [decide(held, failure)], ["q"], 1, EVERYTHING)
    assert (again.id, again.attempt) == (held.id, 2)
    [notice] = store.notices(held.id, None, None, 9).notices
    assert (notice.attempt, notice.record["state"]) == (1, "pending")


def test_a_turn_may_only_commit_or_only_reserve(store: Store) -> None:
    register(store)
    held = taken(store)
    [name] = fill(store, 1)
    assert store.turn("w", [decide(held, Done())], ["q"], 0, EVERYTHING) == ([True], [])
    assert get(store, held.id).state == "complete"
    applied, fresh = store.turn("w", [], ["q"], 1, EVERYTHING)
    assert (applied, ids(fresh)) == ([], [name])


def test_a_turn_reserves_by_the_rules_of_reserve(store: Store) -> None:
    register(store)
    store.set_queue("paused", paused=True)
    submit(
        store,
        new("paused", queue="paused"),
        new("other", queue="b"),
        new("held", held=True),
        new("named", name="x"),
        new("second", queue="a"),
        new("first", queue="a", priority=1),
    )
    _, fresh = store.turn("w", [], ["paused", "q", "a", "b"], 3, Handles(plain=True))
    assert ids(fresh) == ["first", "second", "other"]


def test_a_turn_of_a_declared_lost_worker_does_nothing(store: Store) -> None:
    register(store, "judge")
    register(store, "w")
    held = taken(store)
    fill(store, 1)
    store.declare_lost("judge", {"w": 1})
    with pytest.raises(LeaseLost):
        store.turn("w", [decide(held, Done())], ["q"], 1, EVERYTHING)
    assert counts(store) == {"pending": 1, "reserved": 1}
    assert get(store, held.id) == held


def test_a_turn_of_a_stranger_does_nothing(store: Store) -> None:
    register(store, "w")
    held = taken(store)
    with pytest.raises(LeaseLost):
        store.turn("stranger", [decide(held, Done())], ["q"], 0, EVERYTHING)
    assert get(store, held.id) == held


@pytest.mark.parametrize("number", [0, 1, 3])
def test_something_else_can_be_done_meanwhile(store: Store, number: int) -> None:
    """Once, and before the answer is there."""
    register(store)
    names = fill(store, 6)
    held = take(store, limit=3)
    order: list[str] = []

    changes = [decide(task, Done()) for task in held[:number]]
    _, fresh = store.turn(
        "w", changes, ["q"], 2, EVERYTHING, lambda: order.append(get(store, names[5]).state)
    )

    assert order == ["pending"]
    assert len(fresh) == 2
    assert (fresh[1].id, ids(fresh)) == (names[4], names[3:5])
    assert fresh[1].attempt == 1


def test_what_is_done_meanwhile_may_fail(store: Store) -> None:
    """Then the answer is lost; whoever asks next is not given it."""
    register(store)
    names = fill(store, 3)
    [held] = take(store, limit=1)
    with pytest.raises(ZeroDivisionError):
        store.turn("w", [decide(held, Done())], ["q"], 1, EVERYTHING, lambda: 1 / 0)
    assert [task and task.id for task in store.get(names)] == names
    assert set(ids(store.holdings("w"))) <= set(names)
    check_counts(store)
