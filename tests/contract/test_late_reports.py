"""Store.commit of what happened some time before the store heard of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Cancel, Done, Fail, Happening, Interrupt, Snooze, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Task
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import edits as edit_control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    get,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)

BEGIN = 1_700_000_040.0
"""The beginning of a minute."""


@pytest.fixture
def clock() -> Clock:
    return Clock(BEGIN)


@pytest.fixture(autouse=True)
def worker(store: Store) -> None:
    register(store)


def tell(store: Store, task: Task, happening: Happening, ago: float) -> Task:
    applied = store.commit([decide(task, happening, ago)])[0]
    assert applied is not None
    return applied


def test_an_end_is_when_it_was_and_all_else_when_it_was_heard(store: Store, clock: Clock) -> None:
    running = started(store)
    clock.advance(100)

    done = tell(store, running, Done("here"), ago=60)

    assert (done.started_at, done.finished_at) == (BEGIN, BEGIN + 40)
    assert done.updated == clock.now
    assert get(store, running.id) == done
    [attempt] = store.attempts(running.id)
    assert (attempt.started_at, attempt.finished_at) == (BEGIN, BEGIN + 40)
    assert [event.at for event in store.events(running.id)][-1] == clock.now
    assert store.durations("q", 10) == [("", 40)]


@pytest.mark.parametrize("happening", [Interrupt("stopped"), Snooze(30.0), Fail(Fault("X"))])
def test_every_ending_of_an_attempt_is_when_it_was(
    store: Store, clock: Clock, happening: Happening
) -> None:
    running = started(store)
    clock.advance(100)
    after = tell(store, running, happening, ago=60)
    [attempt] = store.attempts(running.id)
    assert attempt.finished_at == BEGIN + 40
    assert after.eta == (clock.now + 30 if isinstance(happening, Snooze) else None)


def test_a_start_is_when_it_was(store: Store, clock: Clock) -> None:
    reserved = taken(store)
    clock.advance(100)
    running = tell(store, reserved, Start(7), ago=90)
    assert running.started_at == BEGIN + 10

    tell(store, running, Done(), ago=20)

    [attempt] = store.attempts(reserved.id)
    assert (attempt.started_at, attempt.finished_at) == (BEGIN + 10, BEGIN + 80)


def test_start_and_end_may_be_told_together(store: Store, clock: Clock) -> None:
    """As of a task that began and ended while the store was away."""
    reserved = taken(store)
    clock.advance(100)
    begun = decide(reserved, Start(7), 90)
    end = decide(_as_started(reserved), Done(), 20)

    done = store.commit([begun, end])[1]

    assert done is not None
    assert (done.started_at, done.finished_at) == (BEGIN + 10, BEGIN + 80)


def test_nothing_ends_before_it_began(store: Store, clock: Clock) -> None:
    """Whoever measures by a clock that was set tells of a time that can't have been."""
    clock.advance(50)
    running = started(store)
    clock.advance(10)
    done = tell(store, running, Done(), ago=3600)
    assert done.finished_at == done.started_at == BEGIN + 50
    [attempt] = store.attempts(running.id)
    assert attempt.finished_at == attempt.started_at == BEGIN + 50


def test_nothing_begins_before_it_was_reserved(store: Store, clock: Clock) -> None:
    submit(store, new())
    clock.advance(50)
    reserved = take_one(store)
    clock.advance(10)
    assert tell(store, reserved, Start(7), ago=3600).started_at == BEGIN + 50
    assert store.attempts(reserved.id)[0].started_at == BEGIN + 50


def test_what_was_never_said_to_have_started_ends_after_its_reservation(
    store: Store, clock: Clock
) -> None:
    submit(store, new(), new())
    clock.advance(50)
    one, other = take(store, limit=2)
    clock.advance(10)
    assert tell(store, one, Done(), ago=4).finished_at == BEGIN + 56
    assert tell(store, other, Done(), ago=3600).finished_at == BEGIN + 50
    assert store.attempts(other.id)[0].finished_at == BEGIN + 50


def test_a_late_result_of_a_returned_task_is_when_it_was(store: Store, clock: Clock) -> None:
    register(store, "judge")
    running = started(store)
    clock.advance(100)
    assert worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1})) == 1
    clock.advance(100)

    done = tell(store, running, Done(), ago=160)

    assert done.finished_at == BEGIN + 40
    [attempt] = store.attempts(running.id)
    assert (attempt.started_at, attempt.finished_at) == (BEGIN, BEGIN + 40)


def test_a_turn_tells_of_many_that_ended_at_different_times(store: Store, clock: Clock) -> None:
    submit(store, *(new() for _ in range(6)))
    tasks = take(store, limit=6)
    clock.advance(100)
    agos = [0.0, 0.0, 60.0, 60.0, 30.0, 0.0]
    changes = [decide(task, Done(), ago) for task, ago in zip(tasks, agos, strict=True)]

    applied, _ = store.turn("w", changes, ["q"], 0, EVERYTHING)

    assert all(applied)
    ends = [get(store, task.id).finished_at for task in tasks]
    assert ends == [clock.now - ago for ago in agos]


def test_an_end_counts_in_the_minute_in_which_it_was_heard(store: Store, clock: Clock) -> None:
    running = started(store)
    store.sample()
    clock.advance(600)
    store.sample()
    tell(store, running, Done(), ago=570)
    clock.advance(60)
    store.sample()

    ended = [figures for figures in store.figures(0, clock.now, 60, None) if figures.complete]

    assert [(each.at, each.complete, each.ran) for each in ended] == [(BEGIN + 600, 1, 30)]


def test_it_is_kept_for_as_long_as_any_other(store: Store, clock: Clock) -> None:
    """Whoever waits for a result must find it, though it was ready long ago."""
    running = started(store)
    clock.advance(1000)
    tell(store, running, Done("at last"), ago=900)
    clock.advance(50)
    assert store.forget({"complete": 100, "result": 100}, 10) == 0
    assert store.purge(None, ["complete"], clock.now - 100, 10) == []
    assert store.purge([running.id], ["complete"], clock.now - 100, 10) == []
    assert get(store, running.id).result == "at last"
    clock.advance(51)
    assert store.forget({"complete": 100}, 10) == 1


def test_fair_shares_count_what_ran(store: Store, clock: Clock) -> None:
    """The one who ran for longer, but told sooner, has used more."""
    store.set_queue("q", fair="owner")
    ann = taken(store, owner="ann")
    bob = taken(store, owner="bob")
    clock.advance(100)
    tell(store, ann, Done(), ago=10)
    clock.advance(100)
    tell(store, bob, Done(), ago=190)
    submit(store, new(owner="ann"), new(owner="bob"))
    assert take_one(store).owner == "bob"


def test_only_what_an_attempt_does_can_be_told_late(store: Store) -> None:
    running = started(store)
    [waiting] = submit(store, new())
    assert decide(waiting, Cancel(), 60).ago == 0
    assert decide(running, Cancel(), 60).ago == 0
    for ago in (0.01, -0.01, float("nan"), float("inf"), -float("inf")):
        assert decide(running, Done(), ago).ago == 0
    assert decide(running, Done(), 60).ago == 60
    assert decide(running, Done(), -60).ago == -60


def test_leaving_its_end_it_begins_anew(store: Store, clock: Clock) -> None:
    running = started(store)
    clock.advance(100)
    done = tell(store, running, Fail(Fault("X")), ago=60)
    assert edit_control.retry(store, done.id) is not None
    again = apply(store, take_one(store), Start(8))
    clock.advance(10)
    assert apply(store, again, Done()).finished_at == clock.now
    ends = [attempt.finished_at for attempt in store.attempts(done.id)]
    assert ends == [BEGIN + 40, BEGIN + 110]


def _as_started(task: Task) -> Task:
    return replace(task, state="started")


YEAR = 365 * 86400.0


def test_a_clock_that_is_set_back_lets_nothing_end_before_it_began(
    store: Store, clock: Clock
) -> None:
    running = started(store)
    clock.advance(-YEAR)
    done = apply(store, running, Done("here"))
    assert (done.started_at, done.finished_at) == (BEGIN, BEGIN)
    [attempt] = store.attempts(running.id)
    assert (attempt.started_at, attempt.finished_at) == (BEGIN, BEGIN)


def test_an_end_may_be_ahead_of_a_clock_that_was_set_back(store: Store, clock: Clock) -> None:
    """Its node knows how long it took."""
    running = started(store)
    clock.advance(-YEAR)
    done = tell(store, running, Done("here"), ago=-(YEAR + 40))
    assert (done.started_at, done.finished_at) == (BEGIN, BEGIN + 40)
    [attempt] = store.attempts(running.id)
    assert (attempt.started_at, attempt.finished_at) == (BEGIN, BEGIN + 40)
