"""Store.purge: forgetting what has ended, with all that belongs to it."""

from __future__ import annotations

import pytest

from stayer.core.errors import Refused
from stayer.core.happenings import Done, Fail, Start
from stayer.core.model import FINISHED, STATES, Fault, Filter, LogPiece, Report
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
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
    taken,
)


def test_a_purged_task_is_gone_with_all_that_belongs_to_it(store: Store, clock: Clock) -> None:
    # Given a finished task with everything that a task can have
    register(store)
    task = taken(store, id="a")
    report = Report(id="a", attempt=1, checkpoint=b"state", log=(LogPiece(0, b"hello"),))
    beat(store, "w", 2, report)
    apply(store, apply(store, task, Start()), Done("result"))

    # When it is purged
    clock.advance(1)
    assert store.purge(None, FINISHED, clock.now, 10) == ["a"]

    # Then nothing is left of it
    assert store.get(["a"]) == [None]
    assert store.find(Filter(), None, 10).tasks == ()
    assert (store.attempts("a"), store.log("a", 1, 0, 99)) == ([], [])
    assert happened(store.events("a")) in ([], ["deleted"])
    assert store.checkpoint("a") is None
    assert counts(store) == {}
    assert store.purge(None, FINISHED, clock.now, 10) == []


def test_what_is_purged_was_finished(store: Store, clock: Clock) -> None:
    register(store)
    taken(store)
    started(store)
    fill(store, 1)
    fill(store, 1, delay=5)
    clock.advance(10)
    assert store.purge(None, STATES, clock.now + 1000, 100) == []
    assert counts(store) == {"reserved": 1, "started": 1, "pending": 1, "scheduled": 1}


def test_only_these_states_are_purged(store: Store, clock: Clock) -> None:
    register(store)
    apply(store, taken(store, id="complete"), Done())
    apply(store, taken(store, id="failed"), Fail(Fault("Boom")))
    submit(store, new("cancelled"))
    control.cancel(store, "cancelled")
    clock.advance(1)
    assert store.purge(None, ["failed"], clock.now, 10) == ["failed"]
    assert store.purge(None, [], clock.now, 10) == []
    assert store.purge(None, ["complete", "cancelled"], clock.now, 10) in (
        ["complete", "cancelled"],
        ["cancelled", "complete"],
    )


def test_only_what_ended_before_is_purged(store: Store, clock: Clock) -> None:
    register(store)
    old = taken(store, id="old", queue="slow")
    apply(store, taken(store, id="first"), Done())
    clock.advance(10)
    apply(store, taken(store, id="second"), Done())
    apply(store, old, Done())
    assert store.purge(None, FINISHED, clock.now - 10, 10) == []
    assert store.purge(None, FINISHED, clock.now, 10) == ["first"]
    assert sorted(store.purge(None, FINISHED, clock.now + 1, 10)) == ["old", "second"]


def test_no_more_than_the_limit_are_purged(store: Store, clock: Clock) -> None:
    register(store)
    names = fill(store, 5)
    for task in take(store, limit=5):
        apply(store, task, Done())
    clock.advance(1)
    purged = store.purge(None, FINISHED, clock.now, 2)
    assert len(purged) == 2
    assert counts(store) == {"complete": 3}
    purged += store.purge(None, FINISHED, clock.now, 2)
    purged += store.purge(None, FINISHED, clock.now, 2)
    assert sorted(purged) == sorted(names)
    check_counts(store)


def test_only_the_ids_that_are_named_are_purged(store: Store, clock: Clock) -> None:
    register(store)
    for id in ("a", "b", "c"):
        apply(store, taken(store, id=id), Done())
    fill(store, 1)
    clock.advance(1)
    assert store.purge([], FINISHED, clock.now, 10) == []
    assert store.purge(["b", "unknown", "b"], FINISHED, clock.now, 10) == ["b"]
    assert store.purge(["a"], ["failed"], clock.now, 10) == []
    assert store.purge(["a"], FINISHED, clock.now - 100, 10) == []
    assert [task and task.id for task in store.get(["a", "b", "c"])] == ["a", None, "c"]


def test_the_end_of_time_is_a_time_too(store: Store) -> None:
    register(store)
    apply(store, taken(store, id="a"), Done())
    assert store.purge(["a"], FINISHED, float("inf"), 1) == ["a"]


def test_what_was_retried_in_time_is_kept(store: Store, clock: Clock) -> None:
    register(store)
    ended = apply(store, taken(store), Done())
    edit_control.retry(store, ended.id)
    clock.advance(10)
    assert store.purge(None, FINISHED, clock.now, 10) == []
    assert get(store, ended.id).state == "pending"


def test_the_operators_verbs_delete_what_has_ended(store: Store, clock: Clock) -> None:
    register(store)
    apply(store, taken(store, id="ended"), Done())
    submit(store, new("waits"))
    with pytest.raises(Refused):
        control.delete(store, "waits")
    control.delete(store, "ended")
    control.cancel(store, "waits")
    clock.advance(1)
    assert list(control.purge(store, clock.now)) == [["waits"]]
    assert ids(list(control.find_all(store, Filter()))) == []
