"""Store.promote: what is due becomes pending."""

from __future__ import annotations

from stayer.core.happenings import Snooze
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    counts,
    fill,
    get,
    happened,
    ids,
    new,
    register,
    submit,
    take,
    taken,
)


def test_with_nothing_scheduled_nothing_is_due(store: Store) -> None:
    assert store.promote(10) is None
    fill(store, 1)
    assert store.promote(10) is None


def test_a_task_that_is_not_due_is_left_alone(store: Store, clock: Clock) -> None:
    register(store)
    [task] = submit(store, new(delay=30))
    clock.advance(29)
    assert store.promote(10) == task.eta
    assert get(store, task.id) == task
    assert take(store) == []


def test_a_due_task_becomes_pending(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", delay=30))
    clock.advance(30)
    assert store.promote(10) is None
    task = get(store, "a")
    assert (task.state, task.updated) == ("pending", clock.now)
    assert happened(store.events("a")) == ["scheduled", "pending"]
    assert store.events("a")[-1].at == clock.now
    assert counts(store) == {"pending": 1}
    assert ids(take(store)) == ["a"]


def test_the_answer_is_when_the_next_one_is_due(store: Store, clock: Clock) -> None:
    submit(store, new(delay=50), new("first", delay=10), new(delay=30, queue="other"))
    start = clock.now
    assert store.promote(10) == start + 10
    clock.advance(10)
    assert store.promote(10) == start + 30
    assert get(store, "first").state == "pending"
    clock.advance(20)
    assert store.promote(10) == start + 50
    clock.advance(100)
    assert store.promote(10) is None


def test_no_more_than_the_limit_become_pending(store: Store, clock: Clock) -> None:
    fill(store, 5, delay=10)
    fill(store, 1, delay=100)
    due, later = clock.now + 10, clock.now + 100
    clock.advance(20)
    assert store.promote(2) == due
    assert counts(store) == {"pending": 2, "scheduled": 4}
    assert store.promote(2) == due
    assert store.promote(2) == later
    assert counts(store) == {"pending": 5, "scheduled": 1}


def test_only_what_is_due_becomes_pending(store: Store, clock: Clock) -> None:
    submit(store, new("due", delay=10), new("almost", delay=10.5), new("not", delay=12))
    clock.advance(10)
    assert store.promote(10) == clock.now + 0.5
    states = [get(store, id).state for id in ("due", "almost", "not")]
    assert states == ["pending", "scheduled", "scheduled"]


def test_a_promoted_task_has_kept_its_place(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("old", delay=50))
    clock.advance(1)
    submit(store, new("young"))
    clock.advance(50)
    store.promote(10)
    assert ids(take(store, limit=2)) == ["old", "young"]


def test_a_snoozed_task_is_promoted_too(store: Store, clock: Clock) -> None:
    register(store)
    apply(store, taken(store, id="a"), Snooze(60))
    assert store.promote(10) == clock.now + 60
    clock.advance(60)
    assert store.promote(10) is None
    [again] = take(store)
    assert (again.id, again.attempt) == ("a", 2)


def test_a_held_or_paused_task_that_is_due_keeps_nobody_busy(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("held", delay=5, held=True), new("paused", queue="paused", delay=5))
    store.set_queue("paused", paused=True)
    clock.advance(6)
    assert store.promote(10) is None
    assert [get(store, id).state for id in ("held", "paused")] == ["pending", "pending"]
    assert take(store, queues=["q", "paused"], limit=5) == []


def test_a_cancelled_task_is_never_due(store: Store, clock: Clock) -> None:
    submit(store, new("a", delay=5))
    control.cancel(store, "a")
    assert store.promote(10) is None
    clock.advance(10)
    assert store.promote(10) is None
    assert get(store, "a").state == "cancelled"


def test_a_task_is_promoted_once(store: Store, other: Store, clock: Clock) -> None:
    submit(store, new("a", delay=5))
    clock.advance(5)
    store.promote(10)
    other.promote(10)
    assert happened(store.events("a")) == ["scheduled", "pending"]
    check_counts(store)


def test_what_was_submitted_with_an_eta_of_the_past_is_not_promoted(
    store: Store, clock: Clock
) -> None:
    submit(store, new("a", eta=clock.now - 5))
    assert store.promote(10) is None
    assert happened(store.events("a")) == ["pending"]
