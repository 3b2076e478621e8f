"""What has not been started in time never is: it ends as expired."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.happenings import Done, Fail, Interrupt, Start
from stayer.core.lifecycle import OVERDUE
from stayer.core.model import Fault, Policy
from stayer.core.submit.edits import Edits
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import edits as edit_control
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
    take_one,
)


def test_it_knows_until_when_it_may_be_started(store: Store, clock: Clock) -> None:
    [by_age, by_moment, always] = submit(
        store, new(expire=60), new(start_before=clock.now + 5), new()
    )
    moments = [task.start_before for task in (by_age, by_moment, always)]
    assert moments == [clock.now + 60, clock.now + 5, None]
    assert [get(store, task.id) for task in (by_age, by_moment, always)] == [
        by_age, by_moment, always,
    ]  # fmt: skip


def test_what_is_too_old_ends(store: Store, clock: Clock) -> None:
    submit(store, new("a", expire=60))
    assert store.promote(10) == clock.now + 60
    clock.advance(60)
    assert store.promote(10) is None
    task = get(store, "a")
    assert (task.state, task.ending, task.finished_at) == ("failed", "expired", clock.now)
    assert task.error is not None
    assert task.error.type == "Expired"
    assert (task.attempt, task.failures) == (0, 0)
    assert happened(store.events("a")) == ["pending", "failed"]
    assert store.events("a")[-1].note == "expired"
    assert counts(store) == {"failed": 1}
    assert store.purge(None, ["failed"], clock.now + 1, 10) == ["a"]


def test_what_is_too_old_is_given_to_nobody(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("old", expire=60, priority=5), new("young", expire=61), new("ageless"))
    clock.advance(60)
    assert ids(store.peek("q", 10)) == ["young", "ageless"]
    assert ids(take(store, limit=1)) == ["young"]
    assert ids(take(store, limit=5)) == ["ageless"]
    assert store.turn("w", [], ["q"], 5, EVERYTHING) == ([], [])
    store.promote(10)
    assert get(store, "old").state == "failed"
    check_counts(store)


def test_very_many_that_are_too_old_hide_nothing(store: Store, clock: Clock) -> None:
    register(store)
    fill(store, 2500, expire=1)
    submit(store, new("good"))
    clock.advance(1)
    found = [task.id for _ in range(3) for task in take(store)]
    assert found == ["good"]
    while (following := store.promote(1000)) is not None:
        assert following <= clock.now
    assert counts(store) == {"failed": 2500, "reserved": 1}


def test_no_more_than_the_limit_end_at_a_time(store: Store, clock: Clock) -> None:
    fill(store, 5, expire=10)
    clock.advance(10)
    assert store.promote(2) == clock.now
    assert counts(store) == {"pending": 3, "failed": 2}
    assert store.promote(5) is None


@pytest.mark.parametrize("fields", [{"delay": 100.0}, {"held": True}], ids=str)
def test_it_ends_also_while_it_waits_for_something_else(
    store: Store, clock: Clock, fields: dict[str, Any]
) -> None:
    submit(store, new("a", expire=10, **fields))
    clock.advance(10)
    store.promote(10)
    assert get(store, "a").state == "failed"
    assert store.promote(10) is None


def test_it_ends_also_in_a_paused_queue(store: Store, clock: Clock) -> None:
    submit(store, new("a", expire=10))
    store.set_queue("q", paused=True)
    clock.advance(10)
    store.promote(10)
    assert get(store, "a").state == "failed"


def test_one_that_is_due_and_too_old_is_never_pending(store: Store, clock: Clock) -> None:
    submit(store, new("a", delay=5, expire=5))
    clock.advance(5)
    store.promote(10)
    assert happened(store.events("a")) == ["scheduled", "failed"]


def test_what_was_started_in_time_does_not_expire(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", expire=10, policy=Policy(retries=1)))
    task = apply(store, take_one(store), Start(pid=1))
    assert task.start_before is None
    clock.advance(10)
    assert store.promote(10) is None
    apply(store, task, Fail(Fault("Boom")))
    [again] = take(store)
    assert again.attempt == 2
    assert apply(store, again, Done()).state == "complete"


def test_what_was_handed_back_before_its_start_may_still_expire(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", expire=10))
    apply(store, take_one(store), Interrupt())
    assert store.promote(10) == clock.now + 10
    clock.advance(10)
    assert take(store) == []
    store.promote(10)
    assert get(store, "a").ending == "expired"


def test_what_is_reserved_in_time_may_be_started_late(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", expire=10))
    task = take_one(store)
    clock.advance(20)
    assert store.promote(10) is None
    assert apply(store, task, Start(pid=1)).state == "started"


def test_one_that_is_run_again_has_all_the_time(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", expire=10))
    clock.advance(10)
    store.promote(10)
    assert edit_control.retry(store, "a").start_before is None
    assert store.promote(10) is None
    assert ids(take(store)) == ["a"]


def test_a_cancelled_one_does_not_expire(store: Store, clock: Clock) -> None:
    submit(store, new("a", expire=10))
    control.cancel(store, "a")
    assert store.promote(10) is None
    clock.advance(10)
    store.promote(10)
    assert get(store, "a").state == "cancelled"


def test_it_can_be_too_late_from_the_beginning(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", start_before=clock.now - 1))
    assert take(store) == []
    store.promote(10)
    assert get(store, "a").ending == "expired"


def test_a_deadline_is_over_for_what_waits(store: Store, clock: Clock) -> None:
    policy = Policy(deadline=60.0)
    made = submit(store, new("a", policy=policy), new("b", policy=policy, expire=5))
    end = clock.now + 60
    assert [(task.finish_before, task.start_before) for task in made] == [
        (end, end), (end, clock.now + 5),
    ]  # fmt: skip
    assert [get(store, task.id) for task in made] == made
    clock.advance(60)
    store.promote(10)
    assert [get(store, id).ending for id in "ab"] == ["expired", "expired"]


def test_a_deadline_holds_over_all_retries(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", policy=Policy(retries=9, retry_wait=100.0, deadline=60.0)))
    end = clock.now + 60
    apply(store, apply(store, take_one(store), Start(pid=1)), Fail(Fault("Boom")))
    waiting = get(store, "a")
    assert (waiting.state, waiting.start_before, waiting.finish_before) == ("scheduled", end, end)
    assert store.promote(10) == end
    clock.advance(60)
    store.promote(10)
    ended = get(store, "a")
    assert (ended.state, ended.ending, ended.attempt) == ("failed", "expired", 1)


def test_one_whose_deadline_came_while_it_ran_is_not_retried(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", policy=Policy(retries=9, deadline=60.0)))
    apply(store, apply(store, take_one(store), Start(pid=1)), Fail(OVERDUE, "expired"))
    ended = get(store, "a")
    assert (ended.state, ended.ending, ended.error) == ("failed", "expired", OVERDUE)
    assert store.attempts("a")[-1].ending == "expired"


def test_a_deadline_counts_anew_after_a_retry_by_hand(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a", policy=Policy(deadline=60.0)))
    clock.advance(60)
    store.promote(10)
    again = edit_control.retry(store, "a")
    assert (again.start_before, again.finish_before) == (clock.now + 60, clock.now + 60)
    clock.advance(60)
    store.promote(10)
    longer = edit_control.retry(store, "a", edits=Edits(fields={"deadline": 90.0}))
    assert (longer.start_before, longer.finish_before) == (clock.now + 90, clock.now + 90)
    edited = edit_control.edit(store, "a", Edits(fields={"deadline": None}))
    assert (edited.start_before, edited.finish_before) == (None, None)
