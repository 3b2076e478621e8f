"""Store.commit: the one exception to the fence, so that nothing is wasted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.errors import NotHeld
from stayer.core.happenings import Ask, Done, Fail, Hold, Interrupt, Release
from stayer.core.lifecycle import decide, with_checkpoint
from stayer.core.model import Fault, Task
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    commit,
    counts,
    get,
    register,
    started,
    take,
    take_one,
)


@pytest.fixture
def lost(store: Store) -> Task:
    """What the worker `w` believes to hold, though it is lost and its tasks are returned."""
    register(store, "judge")
    register(store, "w")
    running = started(store, "w")
    assert worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1})) == 1
    assert counts(store) == {"pending": 1}
    return running


def test_a_returned_task_remembers_from_whom(store: Store, lost: Task) -> None:
    back = get(store, lost.id)
    assert (back.state, back.worker, back.attempt) == ("pending", None, 1)
    assert back.returned_from is not None


def test_a_late_result_of_a_returned_task_is_welcome(
    store: Store, clock: Clock, lost: Task
) -> None:
    clock.advance(5)
    done = apply(store, lost, Done("late, but here"))
    assert (done.state, done.result, done.ending) == ("complete", "late, but here", "done")
    assert (done.finished_at, done.returned_from) == (clock.now, None)
    assert get(store, lost.id) == done
    assert counts(store) == {"complete": 1}
    assert len(store.attempts(lost.id)) == 1
    register(store, "v")
    assert take(store, "v") == []


def test_a_late_result_is_welcome_once(store: Store, lost: Task) -> None:
    apply(store, lost, Done("first"))
    assert commit(store, lost, Done("second")) is None
    assert get(store, lost.id).result == "first"


def test_a_late_result_need_not_know_of_orders_given_meanwhile(store: Store) -> None:
    register(store, "judge")
    register(store, "w")
    running = started(store, "w")
    apply(store, running, Ask("pause"))
    worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1}))
    assert apply(store, running, Done("late")).state == "complete"


def test_settling_a_late_result_goes_through(store: Store, lost: Task) -> None:
    assert control.settle(store, lost, Done("late")).result == "late"


def test_any_other_late_outcome_is_refused(store: Store, lost: Task) -> None:
    before = get(store, lost.id)
    for outcome in (Fail(Fault("Boom")), Interrupt()):
        assert commit(store, lost, outcome) is None
        with pytest.raises(NotHeld):
            control.settle(store, lost, outcome)
    assert get(store, lost.id) == before


@pytest.mark.parametrize(
    "other", [{"worker": "v"}, {"worker": None}, {"attempt": 2}, {"attempt": 0}], ids=str
)
def test_a_late_result_of_somebody_else_is_refused(
    store: Store, lost: Task, other: dict[str, Any]
) -> None:
    register(store, "v")
    change = replace(decide(lost, Done("stolen")), **other)
    assert store.commit([change]) == [None]
    assert counts(store) == {"pending": 1}


def test_a_late_result_is_refused_once_the_task_is_taken(store: Store, lost: Task) -> None:
    register(store, "v")
    again = take_one(store, "v")
    assert again.returned_from is None
    assert commit(store, lost, Done("late")) is None
    apply(store, again, Interrupt())
    assert commit(store, lost, Done("late")) is None
    assert counts(store) == {"pending": 1}


def test_a_late_result_is_refused_once_the_task_was_touched(store: Store, lost: Task) -> None:
    held = apply(store, get(store, lost.id), Hold())
    assert held.returned_from is None
    apply(store, held, Release())
    assert commit(store, lost, Done("late")) is None
    assert counts(store) == {"pending": 1}


def test_a_late_result_is_refused_once_the_task_was_cancelled(store: Store, lost: Task) -> None:
    control.cancel(store, lost.id)
    assert commit(store, lost, Done("late")) is None
    assert counts(store) == {"cancelled": 1}


def test_a_task_that_was_handed_back_welcomes_nothing_late(store: Store) -> None:
    register(store)
    running = started(store)
    back = apply(store, running, Interrupt())
    assert back.returned_from is None
    assert commit(store, running, Done("late")) is None
    check_counts(store)


def test_a_change_that_is_not_late_is_refused(store: Store, lost: Task) -> None:
    change = replace(decide(lost, Done("late")), late=False)
    assert store.commit([change]) == [None]


def test_the_second_loss_is_remembered_not_the_first(store: Store, lost: Task) -> None:
    # Given a task that two workers lost, one after the other
    register(store, "v")
    again = take_one(store, "v")
    worker_control.return_lost_tasks(store, store.declare_lost("judge", {"v": 1}))

    # Then the first one's result is refused and the second one's is welcome
    assert commit(store, lost, Done("first")) is None
    assert apply(store, again, Done("second")).result == "second"


def test_a_late_result_brings_what_its_attempt_saved(store: Store, lost: Task) -> None:
    change = with_checkpoint(decide(lost, Done("late")), b"the last of it")
    assert store.commit([change])[0] is not None
    saved = store.checkpoint(lost.id)
    assert saved is not None
    assert (saved.attempt, saved.data) == (1, b"the last of it")
    assert get(store, lost.id).checkpoint_at is not None


def test_a_late_result_that_is_refused_leaves_the_checkpoint(store: Store, lost: Task) -> None:
    register(store, "v")
    take_one(store, "v")
    change = with_checkpoint(decide(lost, Done("late")), b"the last of it")
    assert store.commit([change])[0] is None
    assert store.checkpoint(lost.id) is None
