"""Store.commit: what a change does. What it must name: test_fence; late ones: test_late_results."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from stayer.core.happenings import (
    Ask,
    Cancel,
    Done,
    Fail,
    Hold,
    Interrupt,
    Release,
    Retry,
    Snooze,
    Start,
)
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Order, Policy, State, Value
from stayer.store import Store
from tests.contract.builders import (
    VALUES,
    Clock,
    apply,
    bare,
    check_counts,
    counts,
    fill,
    get,
    happened,
    ids,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)

BOOM = Fault("Boom", "it went up", "line 1\nline 2", exit_code=3, signal=9)


def test_a_batch_applies_what_it_can_and_says_so(store: Store) -> None:
    register(store)
    fill(store, 4)
    a, b, c, d = take(store, limit=4)
    apply(store, b, Interrupt())
    answers = store.commit([decide(task, Done(task.id)) for task in (d, b, a, c)])
    assert [task and (task.id, task.state) for task in answers] == [
        (d.id, "complete"),
        None,
        (a.id, "complete"),
        (c.id, "complete"),
    ]
    assert get(store, b.id).state == "pending"
    check_counts(store)


def test_changes_of_one_task_apply_in_their_order(store: Store) -> None:
    register(store)
    task = taken(store)
    start = decide(task, Start(pid=5))
    done = decide(replace(task, state="started"), Done("quick"))
    answers = store.commit([start, done])
    assert answers == [get(store, task.id)] * 2
    assert happened(store.events(task.id)) == ["pending", "reserved", "started", "complete"]


def test_thousands_may_change_in_one_call(store: Store) -> None:
    register(store)
    fill(store, 2500)
    tasks = take(store, limit=2500)
    assert None not in store.commit([decide(task, Done()) for task in tasks])
    assert counts(store) == {"complete": 2500}


def test_nothing_to_change_is_nothing_done(store: Store) -> None:
    assert store.commit([]) == []


def test_the_answer_is_the_task_as_it_is_now(store: Store, clock: Clock) -> None:
    register(store)
    task = taken(store)
    clock.advance(2)
    answer = apply(store, task, Start(pid=123))
    assert answer == get(store, task.id)
    expected = replace(task, state="started", pid=123, started_at=clock.now, updated=clock.now)
    assert answer == expected


@pytest.mark.parametrize(
    "becomes",
    [
        {"held": True},
        {"pid": 99},
        {"result": {"a": [1]}},
        {"result": None},
        {"error": BOOM},
        {"error": None},
        {"failures": 4},
        {"interruptions": 5},
        {"losses": 6},
        {"priority": -3},
        {"orders": (Order(1, "signal", {"signal": "USR1"}), Order(2, "cancel", {}, True))},
        {"orders": ()},
    ],
    ids=str,
)
def test_a_change_sets_what_it_names_and_keeps_the_rest(
    store: Store, clock: Clock, becomes: dict[str, Any]
) -> None:
    # Given a task all of whose fields differ from the defaults
    register(store)
    filled = store.commit(
        [
            bare(
                started(store, priority=1, tags=("x",)),
                "started",
                held=False,
                pid=1,
                result="old",
                error=Fault("Old"),
                failures=1,
                interruptions=2,
                losses=3,
                orders=(Order(1, "pause"),),
                delay=7.0,
            )
        ]
    )[0]
    assert filled is not None

    # When one field is changed
    clock.advance(1)
    [changed] = store.commit([bare(filled, "started", **becomes)])

    # Then that one differs, and only that one
    assert changed == replace(filled, updated=clock.now, **becomes)
    assert get(store, filled.id) == changed


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_results_come_back_as_they_went_in(store: Store, value: Value) -> None:
    register(store)
    ended = apply(store, taken(store), Done(value))
    for seen in (ended, get(store, ended.id)):
        assert seen.result == value
        assert type(seen.result) is type(value)


def test_errors_come_back_whole(store: Store) -> None:
    register(store)
    ended = apply(store, taken(store), Fail(BOOM, "killed"))
    assert (ended.state, ended.ending, ended.error, ended.failures) == ("failed", "killed", BOOM, 1)
    assert get(store, ended.id) == ended


def test_starting_and_ending_have_their_times(store: Store, clock: Clock) -> None:
    register(store)
    task = taken(store)
    assert (task.started_at, task.finished_at) == (None, None)
    began = clock.advance(10)
    running = apply(store, task, Start())
    assert (running.started_at, running.finished_at) == (began, None)
    ended = clock.advance(10)
    done = apply(store, running, Done())
    assert (done.started_at, done.finished_at, done.updated) == (began, ended, ended)


@pytest.mark.parametrize("to", ["complete", "failed", "cancelled"])
def test_leaving_an_end_clears_its_time(store: Store, clock: Clock, to: State) -> None:
    register(store)
    [ended] = store.commit([bare(taken(store), to, ending="done")])
    assert ended is not None
    assert ended.finished_at == clock.now
    clock.advance(1)
    again = apply(store, ended, Retry())
    assert (again.state, again.finished_at, again.updated) == ("pending", None, clock.now)
    assert ids(take(store)) == [again.id]


@pytest.mark.parametrize("to", ["waiting", "scheduled", "pending"])
def test_a_task_that_goes_back_is_nobodys(store: Store, clock: Clock, to: State) -> None:
    register(store)
    running = started(store)
    assert (running.worker, running.node, running.pid) == ("w", "node-of-w", 77)
    assert running.started_at == clock.now
    [back] = store.commit([bare(running, to, ending="interrupted", delay=5)])
    assert back is not None
    assert (back.state, back.worker, back.node, back.pid) == (to, None, None, None)
    assert (back.started_at, back.attempt) == (None, 1)
    assert store.holdings("w") == []
    check_counts(store)


@pytest.mark.parametrize("to", ["complete", "failed", "cancelled"])
def test_a_finished_task_tells_where_it_ran_but_is_not_held(store: Store, to: State) -> None:
    register(store)
    [ended] = store.commit([bare(started(store), to, ending="done")])
    assert ended is not None
    assert (ended.worker, ended.node, ended.pid) == ("w", "node-of-w", 77)
    assert store.holdings("w") == []


def test_a_delay_counts_from_the_clock_of_the_store(store: Store, clock: Clock) -> None:
    register(store)
    task = taken(store)
    clock.advance(100)
    snoozed = apply(store, task, Snooze(30))
    assert (snoozed.state, snoozed.eta, snoozed.ending) == ("scheduled", clock.now + 30, "snoozed")


def test_an_eta_goes_only_when_told(store: Store, clock: Clock) -> None:
    [task] = submit(store, new(delay=30))
    kept = apply(store, task, Hold())
    assert kept.eta == task.eta
    [without] = store.commit([bare(kept, "pending", delay=None)])
    assert without is not None
    assert without.eta is None


def test_an_order_takes_the_next_number(store: Store) -> None:
    register(store)
    task = apply(store, taken(store), Ask("pause"))
    assert task.last_order == 1
    task = apply(store, task, Ask("signal", {"signal": 10}))
    assert task.last_order == 2
    assert task.orders == (Order(1, "pause"), Order(2, "signal", {"signal": 10}))
    assert apply(store, task, Start()).last_order == 2


def test_a_new_priority_is_a_new_place(store: Store) -> None:
    register(store)
    a, b, c = submit(store, new("a"), new("b"), new("c", priority=5))
    store.commit([bare(b, "pending", priority=9), bare(c, "pending", priority=-1)])
    assert ids(take(store, limit=3)) == [b.id, a.id, c.id]


class TestAttempts:
    """An attempt is written down when it ends."""

    def test_says_how_it_went(self, store: Store, clock: Clock) -> None:
        register(store)
        reserved = clock.now
        task = taken(store)
        began = clock.advance(5)
        running = apply(store, task, Start(pid=8))
        ended = clock.advance(5)
        apply(store, running, Fail(BOOM, "oom"))
        [attempt] = store.attempts(task.id)
        assert asdict(attempt) == {
            "attempt": 1,
            "worker": "w",
            "node": "node-of-w",
            "pid": 8,
            "reserved_at": reserved,
            "started_at": began,
            "finished_at": ended,
            "ending": "oom",
            "error": BOOM,
            "usage": None,
        }

    def test_one_after_the_other(self, store: Store, clock: Clock) -> None:
        register(store, "w")
        register(store, "v")
        apply(store, started(store, "w", policy=Policy(retries=1)), Fail(BOOM))
        clock.advance(9)
        second = take_one(store, "v")
        apply(store, second, Interrupt())
        attempts = store.attempts(second.id)
        assert [(a.attempt, a.worker, a.ending, a.error) for a in attempts] == [
            (1, "w", "error", BOOM),
            (2, "v", "interrupted", None),
        ]
        # The second never started, whatever the first one did.
        assert (attempts[1].reserved_at, attempts[1].started_at, attempts[1].pid) == (
            clock.now,
            None,
            None,
        )

    def test_none_is_made_by_what_no_worker_held(self, store: Store) -> None:
        [task] = submit(store, new())
        assert apply(store, task, Cancel()).ending == "cancelled"
        assert store.attempts(task.id) == []


class TestEvents:
    """An event is named by the new state or, if the state stays, by the note."""

    def test_tell_a_whole_life(self, store: Store, clock: Clock) -> None:
        register(store)
        running = started(store, id="a")
        clock.advance(4)
        apply(store, apply(store, running, Done()), Retry())
        events = store.events("a")
        assert happened(events) == ["pending", "reserved", "started", "complete", "pending"]
        assert [event.attempt for event in events] == [0, 1, 1, 1, 1]
        assert [event.at for event in events] == [clock.now - 4] * 3 + [clock.now] * 2
        numbers = [event.number for event in events]
        assert numbers == sorted(set(numbers))
        assert events[3].worker == "w"
        assert "retried" in (events[4].note or "")

    def test_a_note_is_one_though_the_state_stays(self, store: Store) -> None:
        [task] = submit(store, new("a"))
        held = apply(store, task, Hold())
        apply(store, held, Release())
        assert happened(store.events("a")) == ["pending", "held", "released"]

    def test_a_new_state_notes_the_ending_and_the_note(self, store: Store) -> None:
        register(store)
        apply(store, taken(store, id="a"), Interrupt("the node goes down"))
        event = store.events("a")[-1]
        assert event.event == "pending"
        assert "interrupted" in (event.note or "")
        assert "the node goes down" in (event.note or "")

    def test_neither_is_none(self, store: Store) -> None:
        [task] = submit(store, new("a"))
        store.commit([bare(task, "pending", priority=3)])
        assert happened(store.events("a")) == ["pending"]
