"""Store.commit: a change applies only to the very state that it was decided for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Ask, Cancel, Done, Fail, Hold, Interrupt, Retry, Snooze
from stayer.core.lifecycle import decide
from stayer.core.model import Fault
from stayer.store import Store
from tests.contract.builders import (
    apply,
    check_counts,
    commit,
    get,
    register,
    started,
    take_one,
    taken,
)

BOOM = Fault("Boom", "it went up")


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "started"},
        {"state": "pending"},
        {"worker": "another"},
        {"worker": None},
        {"attempt": 2},
        {"attempt": 0},
        {"last_order": 0},
        {"last_order": 2},
        {"id": "unknown"},
    ],
    ids=str,
)
def test_a_change_that_names_another_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    # Given a reserved task with everything that a change must name
    register(store)
    register(store, "another")
    task = apply(store, taken(store), Ask("pause"))
    seen = len(store.events(task.id))

    # When a change comes that differs in one of them
    change = replace(decide(task, Done("stolen")), **wrong)

    # Then nothing is done
    assert store.commit([change]) == [None]
    assert get(store, task.id) == task
    assert [attempt.ending for attempt in store.attempts(task.id)] == [None]
    assert len(store.events(task.id)) == seen
    check_counts(store)


def test_each_change_applies_once(store: Store) -> None:
    register(store)
    change = decide(taken(store), Interrupt())
    first, second = store.commit([change, change])
    assert first is not None
    assert second is None
    assert store.commit([change]) == [None]
    assert get(store, first.id).interruptions == 1
    check_counts(store)


def test_a_late_finish_is_refused(store: Store) -> None:
    # Given a task that was taken from one worker and is run by another
    register(store, "late")
    register(store, "holder")
    first = started(store, "late")
    apply(store, first, Interrupt())
    second = take_one(store, "holder")

    # Then what the first one brings is refused, whatever it is
    for late in (Done("late"), Fail(BOOM), Interrupt(), Snooze(1), Hold()):
        assert commit(store, first, late) is None

    # And the second one's result stands
    assert apply(store, second, Done("right")).result == "right"
    assert commit(store, first, Done("late")) is None
    assert get(store, first.id).result == "right"


def test_two_attempts_of_one_worker_are_two(store: Store) -> None:
    register(store)
    first = taken(store)
    apply(store, first, Interrupt())
    second = take_one(store)
    assert commit(store, first, Done("late")) is None
    assert apply(store, second, Done("right")).result == "right"


def test_what_was_decided_before_an_order_is_refused(store: Store) -> None:
    register(store)
    before = started(store)
    asked = apply(store, before, Cancel())
    assert commit(store, before, Interrupt()) is None
    assert apply(store, asked, Interrupt()).state == "cancelled"


def test_a_finished_task_stays_finished(store: Store) -> None:
    register(store)
    running = started(store)
    ended = apply(store, running, Done("first"))
    assert commit(store, running, Done("second")) is None
    assert commit(store, running, Fail(BOOM)) is None
    assert get(store, running.id) == ended


def test_a_retry_after_somebody_elses_is_refused(store: Store) -> None:
    register(store)
    ended = apply(store, taken(store), Done())
    apply(store, apply(store, apply(store, ended, Retry()), Cancel()), Retry())
    assert commit(store, ended, Retry()) is None
