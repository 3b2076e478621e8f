"""A person declares tasks complete or failed: on every store."""

from __future__ import annotations

import pytest

from stayer.core.errors import Refused, TooLarge
from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Filter
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.service.upkeep.due_work import elapse
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    get,
    new,
    register,
    started,
    submit,
    take,
)

BOOM = Fault("Boom", "it broke")


def test_what_waits_ends_as_it_is_said(store: Store, clock: Clock) -> None:
    submit(store, new("a", unique="w"), new("b", delay=60), new("first"))
    submit(store, new("c", after=("first",)))
    clock.advance(5)

    done = control.complete(store, "a", {"n": 1})
    assert (done.state, done.ending, done.result, done.finished_at, done.started_at) == (
        "complete", "done", {"n": 1}, clock.now, None
    )  # fmt: skip
    for id in ("b", "c"):
        failed = control.fail(store, id, "no use")
        assert (failed.state, failed.ending, failed.error) == (
            "failed", "error", Fault("DeclaredFailed", "no use")
        )  # fmt: skip
        assert failed.fingerprint is not None
    assert [each.note for each in store.events("a")][-1] == "done: by hand"
    assert store.attempts("a") == []
    check_counts(store)
    register(store, "w")
    assert {task.id for task in take(store, "w", limit=9)} == {"first"}
    assert submit(store, new("again", unique="w"))[0].state == "pending"
    clock.advance(100)
    elapse(store)
    assert get(store, "b").state == "failed"


def test_what_ended_otherwise_becomes_what_is_said(store: Store, clock: Clock) -> None:
    register(store, "w")
    apply(store, started(store, "w", id="good", unique="w", unique_for=10), Done("old"))
    apply(store, started(store, "w", id="bad"), Fail(BOOM))
    submit(store, new("gone"))
    control.cancel(store, "gone")
    clock.advance(30)
    submit(store, new("other", unique="w"))

    bad = control.complete(store, "bad", b"bytes")
    assert (bad.state, bad.result, bad.error, bad.fingerprint, bad.attempt) == (
        "complete", b"bytes", None, None, 1
    )  # fmt: skip
    good = control.fail(store, "good", "it was wrong")
    assert (good.state, good.result, good.finished_at) == ("failed", None, clock.now)
    assert control.complete(store, "gone").state == "complete"
    assert [get(store, id) for id in ("bad", "good")] == [bad, good]
    ids = {
        state: {task.id for task in control.find_all(store, Filter(states=(state,)))}
        for state in ("complete", "failed", "cancelled")
    }
    assert ids == {"complete": {"bad", "gone"}, "failed": {"good"}, "cancelled": set()}
    assert {task.id for task in control.find_all(store, Filter(fingerprint=good.fingerprint))} == {
        "good"
    }
    check_counts(store)
    for again in (lambda: control.complete(store, "bad"), lambda: control.fail(store, "good")):
        with pytest.raises(Refused, match="already"):
            again()
    control.cancel(store, "other")
    assert edit_control.retry(store, "good").state == "pending"
    assert {*store.purge(None, ("complete",), clock.now + 1, 9)} == {"bad", "gone"}
    check_counts(store)


def test_what_runs_after_it_runs_with_its_result(store: Store) -> None:
    submit(store, new("first"), new("second", after=("first",)))
    control.complete(store, "first", 42)
    elapse(store)
    assert get(store, "second").state == "pending"
    assert store.notices(None, None, None, 9).notices == ()


def test_whoever_wants_to_hear_hears_of_it(store: Store) -> None:
    submit(store, new("t", notify=("failed:http://127.0.0.1:1/",)))
    control.fail(store, "t")
    [notice] = store.notices("t", None, None, 9).notices
    assert notice.event == "failed"


def test_what_runs_is_refused_and_runs_on(store: Store) -> None:
    register(store, "w")
    task = started(store, "w", id="t")
    for declare in (control.complete, control.fail):
        with pytest.raises(Refused, match="--stop"):
            declare(store, "t")
    assert get(store, "t") == task
    apply(store, task, Done("its own"))
    assert get(store, "t").result == "its own"


def test_a_result_that_is_too_large_changes_nothing(store: Store) -> None:
    submit(store, new("t"))
    with pytest.raises(TooLarge):
        control.complete(store, "t", "x" * 1_100_000)
    assert get(store, "t").state == "pending"
