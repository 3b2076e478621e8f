"""What failed, by fault."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.insight.failures import STEP, STEPS, Failure
from stayer.core.insight.fingerprint import fingerprint
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault, Filter, Policy, Task
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take_one,
)

BOOM, BANG = Fault("Boom", "page 1"), Fault("Bang", "elsewhere")
MARK = fingerprint("crawl", "error", BOOM)


@pytest.fixture(autouse=True)
def worker(store: Store) -> None:
    register(store, queues=("q", "other"))


def failed(store: Store, fault: Fault = BOOM, queue: str = "q", **fields: Any) -> Task:
    task = started(store, queue=queue, **{"name": "crawl", **fields})
    return apply(store, task, Fail(fault))


def only(store: Store, *queues: str) -> Failure:
    found = store.failures(queues, 10)
    [failure] = found.failures
    assert (found.faults, found.tasks) == (1, failure.count)
    return failure


def test_where_nothing_failed_there_is_none(store: Store) -> None:
    apply(store, started(store), Done())
    found = store.failures((), 10)
    assert (found.failures, found.faults, found.tasks) == ((), 0, 0)


def test_a_failed_task_has_a_fingerprint_until_it_is_retried(store: Store) -> None:
    task = failed(store)
    assert (task.fingerprint, get(store, task.id).fingerprint) == (MARK, MARK)
    assert edit_control.retry(store, task.id).fingerprint is None
    again = take_one(store)
    assert again.fingerprint is None
    assert store.failures((), 10).failures == ()
    apply(store, again, Done())
    assert get(store, task.id).fingerprint is None


def test_an_attempt_that_will_be_repeated_is_no_failure(store: Store) -> None:
    task = failed(store, policy=Policy(retries=1))
    assert (task.state, task.fingerprint) == ("pending", None)
    assert store.failures((), 10).tasks == 0


def test_failures_of_one_fault_are_one(store: Store, clock: Clock) -> None:
    first = failed(store).finished_at
    clock.advance(10)
    failed(store, Fault("Boom", "page 2"), "other")
    clock.advance(10)
    last = failed(store, Fault("Boom", "page 3"))
    failure = only(store)
    assert failure == Failure(
        fingerprint=MARK,
        count=3,
        first=first or 0.0,
        last=clock.now,
        kind="crawl",
        queues=("q", "other"),
        ending="error",
        type="Boom",
        message="page 3",
        example=last.id,
        lately=(0,) * (STEPS - 1) + (3,),
    )
    assert only(store, "other").count == 1
    assert only(store, "other").message == "page 2"
    assert store.failures(("nowhere",), 10).tasks == 0


def test_the_most_frequent_come_first_and_the_rest_is_counted(store: Store) -> None:
    failed(store, BANG)
    for _ in range(2):
        failed(store)
    failed(store, name="another")
    found = store.failures((), 2)
    assert found.failures[0].fingerprint == MARK
    assert [failure.count for failure in found.failures] == [2, 1]
    assert (found.faults, found.tasks) == (3, 4)


def test_lately_is_the_last_day_by_the_half_hour(store: Store, clock: Clock) -> None:
    failed(store)
    clock.advance(STEP * STEPS - 1)
    assert only(store).lately == (1, *[0] * (STEPS - 1))
    failed(store)
    clock.advance(STEP)
    assert only(store).lately == (*[0] * (STEPS - 2), 1, 0)
    assert only(store).count == 2


def test_failed_tasks_are_found_by_their_fingerprint(store: Store, clock: Clock) -> None:
    first = failed(store)
    clock.advance(1)
    second = failed(store, Fault("Boom", "page 9"), "other")
    failed(store, BANG)
    fresh = submit(store, new(name="crawl"))
    control.cancel(store, fresh[0].id)
    wanted = Filter(fingerprint=MARK)
    page = store.find(wanted, None, 1)
    assert ids(page.tasks) == [second.id]
    assert ids(store.find(wanted, page.next, 1).tasks) == [first.id]
    assert ids(store.find(Filter(fingerprint=MARK, queues=("q",)), None, 9).tasks) == [first.id]
    among = Filter(fingerprint=MARK, states=("failed", "cancelled"))
    assert ids(store.find(among, None, 9).tasks) == [second.id, first.id]
    assert store.find(Filter(fingerprint=MARK, states=("cancelled",)), None, 9).tasks == ()
    assert store.find(Filter(fingerprint="none"), None, 9).tasks == ()
    by_id = Filter(fingerprint=MARK, ids=(first.id, fresh[0].id))
    assert ids(store.find(by_id, None, 9).tasks) == [first.id]


def test_what_is_deleted_or_purged_is_no_failure_any_more(store: Store, clock: Clock) -> None:
    gone, stays = failed(store), failed(store)
    control.delete(store, gone.id)
    assert (only(store).count, only(store).example) == (1, stays.id)
    clock.advance(1)
    assert store.purge(None, FINISHED, clock.now, 10) == [stays.id]
    assert store.failures((), 10).failures == ()


def test_what_expires_or_is_lost_again_and_again_is_a_failure(store: Store, clock: Clock) -> None:
    submit(store, new("plain", expire=1), new("named", name="n", expire=1))
    submit(store, new("command", command=("c", "x"), expire=1))
    clock.advance(2)
    store.promote(10)
    for id, kind in (("plain", ""), ("named", "n"), ("command", "c")):
        task = get(store, id)
        assert task.fingerprint == fingerprint(kind, "expired", task.error)
        [found] = [each for each in store.failures((), 9).failures if each.example == id]
        assert (found.fingerprint, found.kind, found.ending) == (task.fingerprint, kind, "expired")


def test_what_expires_while_it_is_reserved_has_one_too(store: Store, clock: Clock) -> None:
    submit(store, new("late", name="n", expire=1))
    clock.advance(2)
    assert store.reserve("w", ["q"], 1, EVERYTHING) == []
    store.promote(10)
    task = get(store, "late")
    assert task.fingerprint == fingerprint("n", "expired", task.error)


def test_many_failures_are_all_counted(store: Store) -> None:
    number = 60
    submit(store, *(new(f"t{n}", name="crawl") for n in range(number)))
    tasks = store.reserve("w", ["q"], number, EVERYTHING)
    faults = [BOOM if n % 3 else BANG for n in range(number)]
    store.commit([decide(task, Fail(fault)) for task, fault in zip(tasks, faults, strict=True)])
    found = store.failures((), 10)
    assert [each.count for each in found.failures] == [40, 20]
    assert len(list(control.find_all(store, Filter(fingerprint=MARK)))) == 40
    for task in control.find_all(store, Filter(fingerprint=MARK)):
        edit_control.retry(store, task.id)
    assert only(store).type == "Bang"
