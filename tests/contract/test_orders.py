"""Orders: asked of a running task, delivered with the beat until they are acknowledged."""

from __future__ import annotations

import pytest

from stayer.core.errors import Refused
from stayer.core.happenings import (
    Ask,
    Cancel,
    Done,
    Fail,
    Interrupt,
    Note,
    Release,
    Snooze,
    Stop,
    WorkerLost,
)
from stayer.core.model import Fault, Order, Report, Task
from stayer.core.worker_model import Beat
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    commit,
    counts,
    get,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)


@pytest.fixture
def task(store: Store) -> Task:
    register(store)
    return started(store)


def delivered(answer: Beat) -> list[tuple[str, int, list[int]]]:
    return [
        (orders.id, orders.attempt, [order.number for order in orders.orders])
        for orders in answer.orders
    ]


def acknowledge(store: Store, task: Task, beat_number: int, order_number: int) -> Beat:
    report = Report(id=task.id, attempt=task.attempt, acknowledged=order_number)
    return beat(store, task.worker or "", beat_number, report)


def test_an_order_comes_with_every_beat_until_it_is_acknowledged(store: Store, task: Task) -> None:
    assert beat(store, "w", 2).orders == ()
    apply(store, task, Ask("signal", {"signal": "USR1"}))
    for number in (3, 4):
        [orders] = beat(store, "w", number).orders
        assert (orders.id, orders.attempt) == (task.id, 1)
        assert orders.orders == (Order(1, "signal", {"signal": "USR1"}),)
    acknowledge(store, task, 5, 1)
    assert beat(store, "w", 6).orders == ()
    assert get(store, task.id).orders == ()


def test_what_is_asked_and_told_are_events_with_notes(store: Store, task: Task) -> None:
    now = apply(store, task, Ask("signal", {"signal": "USR1"}))
    now = apply(store, now, Ask("pause"))
    apply(store, now, Note("thawed", "stood still: 3 s"))
    told = [(event.event, event.note) for event in store.events(task.id)][-3:]
    assert told == [("signal", "USR1"), ("pause", None), ("thawed", "stood still: 3 s")]
    heard = [(event.event, event.note) for event in store.watch(0, 0.0, 100)][-3:]
    assert heard == told


def test_an_acknowledged_order_is_not_in_the_answer_to_that_beat(store: Store, task: Task) -> None:
    apply(store, task, Ask("pause"))
    assert acknowledge(store, task, 2, 1).orders == ()


def test_orders_are_acknowledged_up_to_a_number(store: Store, task: Task) -> None:
    now = apply(store, task, Ask("pause"))
    now = apply(store, now, Ask("signal"))
    now = apply(store, now, Ask("resume"))
    assert delivered(beat(store, "w", 2)) == [(task.id, 1, [1, 2, 3])]
    assert delivered(acknowledge(store, task, 3, 2)) == [(task.id, 1, [3])]
    now = get(store, task.id)
    assert [order.number for order in now.orders] == [3]
    assert now.last_order == 3


def test_an_old_acknowledgement_takes_nothing_newer(store: Store, task: Task) -> None:
    now = apply(store, task, Ask("pause"))
    acknowledge(store, task, 2, 1)
    apply(store, get(store, now.id), Ask("resume"))
    assert delivered(acknowledge(store, task, 3, 1)) == [(task.id, 1, [2])]


def test_an_acknowledged_cancel_stays_wanted(store: Store, task: Task) -> None:
    apply(store, task, Cancel(grace=5))
    assert delivered(acknowledge(store, task, 2, 1)) == []
    now = get(store, task.id)
    assert now.cancel_wanted
    assert now.orders == (Order(1, "cancel", {"grace": 5}, acknowledged=True),)
    assert apply(store, now, Interrupt()).state == "cancelled"


def test_orders_come_to_the_worker_that_holds_the_task(store: Store, task: Task) -> None:
    register(store, "v")
    other = taken(store, "v")
    apply(store, task, Ask("pause"))
    apply(store, other, Ask("stack"))
    assert delivered(beat(store, "v", 2)) == [(other.id, 1, [1])]
    assert delivered(beat(store, "w", 2)) == [(task.id, 1, [1])]


def test_orders_of_several_tasks_come_in_one_beat(store: Store, task: Task) -> None:
    second = taken(store)
    for each in (task, second):
        apply(store, each, Ask("pause"))
    assert sorted(delivered(beat(store, "w", 2))) == sorted(
        [(task.id, 1, [1]), (second.id, 1, [1])]
    )


def test_orders_are_gone_with_the_attempt(store: Store, task: Task) -> None:
    asked = apply(store, task, Ask("stack"))
    apply(store, asked, Interrupt())
    assert beat(store, "w", 2).orders == ()
    again = take_one(store)
    assert (again.orders, again.last_order) == ((), 1)
    assert apply(store, again, Ask("resume")).orders == (Order(2, "resume"),)


def test_what_was_to_stand_still_is_not_taken_again_until_released(
    store: Store, task: Task
) -> None:
    asked = apply(store, task, Ask("pause"))
    back = apply(store, asked, Interrupt())
    assert (back.state, back.held, back.orders) == ("pending", True, ())
    assert take(store) == []
    apply(store, back, Release())
    assert take_one(store).id == task.id


def test_the_retry_of_a_beat_brings_the_orders_again(store: Store, task: Task) -> None:
    apply(store, task, Ask("pause"))
    assert delivered(beat(store, "w", 2, nonce="n")) == [(task.id, 1, [1])]
    assert delivered(beat(store, "w", 2, nonce="n")) == [(task.id, 1, [1])]


def test_an_acknowledgement_does_not_stand_in_the_way_of_the_end(store: Store, task: Task) -> None:
    asked = apply(store, task, Ask("pause"))
    acknowledge(store, task, 2, 1)
    assert apply(store, asked, Done()).state == "complete"


def test_two_who_ask_at_once_both_are_heard(store: Store, other: Store, task: Task) -> None:
    seen = other.get([task.id])[0]
    assert seen is not None
    apply(store, task, Ask("pause"))
    assert commit(other, seen, Ask("stack")) is None
    apply(other, get(other, task.id), Ask("stack"))
    assert [order.verb for order in get(store, task.id).orders] == ["pause", "stack"]


class TestCancelling:
    def test_what_waits_is_done_at_once(self, store: Store) -> None:
        submit(store, new("a", held=True), new("b", delay=60))
        for id in ("a", "b"):
            assert control.cancel(store, id).state == "cancelled"
            assert get(store, id).finished_at is not None
        assert counts(store) == {"cancelled": 2}

    def test_what_runs_asks_its_worker(self, store: Store, task: Task) -> None:
        asked = control.cancel(store, task.id, grace=2.5)
        assert (asked.state, asked.orders) == ("started", (Order(1, "cancel", {"grace": 2.5}),))
        assert counts(store) == {"started": 1}
        ended = apply(store, asked, Stop())
        assert (ended.state, ended.ending, ended.orders) == ("cancelled", "cancelled", ())
        assert store.attempts(task.id)[0].ending == "cancelled"

    def test_twice_is_once(self, store: Store, task: Task) -> None:
        once = control.cancel(store, task.id)
        assert control.cancel(store, task.id) == once
        assert len(once.orders) == 1

    @pytest.mark.parametrize(
        ("outcome", "state"),
        [
            (Done("made it"), "complete"),
            (Fail(Fault("Boom")), "cancelled"),
            (Interrupt(), "cancelled"),
            (Snooze(5), "cancelled"),
            (Stop(), "cancelled"),
            (WorkerLost(), "cancelled"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_decides_every_outcome_but_done(
        self,
        store: Store,
        task: Task,
        outcome: Done | Fail | Interrupt | Snooze | Stop | WorkerLost,
        state: str,
    ) -> None:
        """Also for a worker that has not heard of it: its change is refused, and decided anew."""
        control.cancel(store, task.id)
        assert control.settle(store, task, outcome).state == state
        check_counts(store)

    def test_what_has_ended_is_refused(self, store: Store, task: Task) -> None:
        apply(store, task, Done())
        with pytest.raises(Refused):
            control.cancel(store, task.id)
        assert get(store, task.id).state == "complete"

    def test_what_is_scheduled_is_done_at_once(
        self, store: Store, clock: Clock, task: Task
    ) -> None:
        snoozed = apply(store, task, Snooze(30))
        assert control.cancel(store, snoozed.id).state == "cancelled"
        clock.advance(60)
        assert store.promote(5) is None
