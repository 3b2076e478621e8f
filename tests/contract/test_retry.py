"""Retrying from the checkpoint, or from the start."""

from __future__ import annotations

import pytest

from stayer.core.flows.model import NewFlow
from stayer.core.happenings import Cancel, Done, Fail, Retry
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Policy, Progress, Report, Task
from stayer.service.control import edits as edit_control
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    commit,
    get,
    new,
    register,
    started,
    submit,
    take_one,
)

BOOM = Fault("Boom", "it broke")


@pytest.fixture
def failed(store: Store) -> Task:
    """A task that had come half way, and saved it."""
    register(store)
    task = started(store, unique="word")
    _half_way(store, task)
    return apply(store, task, Fail(BOOM))


def _half_way(store: Store, task: Task, number: int = 2) -> None:
    progress = Progress(done=1, total=2)
    report = Report(id=task.id, attempt=task.attempt, progress=progress, checkpoint=b"half")
    beat(store, "w", number, report)


def test_a_retry_goes_on_from_the_checkpoint(store: Store, failed: Task) -> None:
    retried = edit_control.retry(store, failed.id)
    saved = store.checkpoint(failed.id)
    assert saved is not None
    assert (saved.attempt, saved.data) == (1, b"half")
    assert retried.checkpoint_at == saved.at
    assert retried.progress is not None
    assert store.events(failed.id)[-1].note == "retried"


def test_from_the_start_there_is_nothing_to_go_on_from(store: Store, failed: Task) -> None:
    retried = edit_control.retry(store, failed.id, from_start=True)
    assert retried == get(store, failed.id)
    assert (retried.state, retried.progress, retried.failures) == ("pending", None, 0)
    assert retried.checkpoint_at is None
    assert store.checkpoint(failed.id) is None
    assert store.events(failed.id)[-1].note == "retried from the start"
    assert [each.ending for each in store.attempts(failed.id)] == ["error"]


def test_the_next_attempt_saves_anew(store: Store, failed: Task) -> None:
    edit_control.retry(store, failed.id, from_start=True)
    again = take_one(store)
    assert (again.id, again.progress) == (failed.id, None)
    beat(store, "w", 3, Report(id=again.id, attempt=2, checkpoint=b"new"))
    saved = store.checkpoint(again.id)
    assert saved is not None
    assert (saved.attempt, saved.data) == (2, b"new")


def test_what_an_earlier_attempt_saves_too_late_does_not_come_back(
    store: Store, failed: Task
) -> None:
    edit_control.retry(store, failed.id, from_start=True)
    _half_way(store, failed, 3)
    take_one(store)
    _half_way(store, failed, 4)
    assert store.checkpoint(failed.id) is None
    assert get(store, failed.id).progress is None


def test_a_retry_that_is_not_applied_forgets_nothing(store: Store, failed: Task) -> None:
    submit(store, new("other", unique="word"))
    assert commit(store, failed, Retry(from_start=True)) is None
    saved = store.checkpoint(failed.id)
    assert saved is not None
    assert saved.data == b"half"
    assert get(store, failed.id) == failed


def test_of_many_only_those_meant_begin_from_the_start(store: Store, clock: Clock) -> None:
    register(store)
    tasks = [started(store) for _ in range(3)]
    for number, task in enumerate(tasks, 2):
        _half_way(store, task, number)
    ended = [apply(store, task, Fail(BOOM)) for task in tasks]
    store.commit([decide(task, Retry(from_start=task is ended[1])) for task in ended])
    assert [store.checkpoint(task.id) is None for task in ended] == [False, True, False]


def test_the_failed_tasks_of_a_flow_begin_from_the_start(store: Store) -> None:
    register(store)
    flow = NewFlow(id="f", name="f", parts=())
    store.submit_flow(flow, [new(id, flow="f", part=id) for id in ("good", "bad")])
    good, bad = take_one(store), take_one(store)
    for number, task in enumerate((good, bad), 2):
        _half_way(store, task, number)
    apply(store, good, Done())
    apply(store, bad, Fail(BOOM))
    assert flow_control.retry(store, "f", from_start=True) == 1
    assert store.checkpoint("bad") is None
    assert store.checkpoint("good") is not None
    apply(store, get(store, "bad"), Cancel())
    assert flow_control.retry(store, "f") == 1


def test_what_was_cancelled_before_its_time_is_scheduled_again(store: Store, clock: Clock) -> None:
    submit(store, new("later", delay=100))
    eta = get(store, "later").eta
    control.cancel(store, "later")

    again = edit_control.retry(store, "later")

    assert (again.state, again.eta) == ("scheduled", eta)
    assert again == get(store, "later")
    clock.advance(101)
    store.promote(10)
    assert get(store, "later").state == "pending"


def test_what_was_cancelled_before_its_time_can_be_run_now(store: Store) -> None:
    submit(store, new("later", delay=100))
    control.cancel(store, "later")

    again = edit_control.retry(store, "later", now=True)

    assert (again.state, again.eta) == ("pending", None)


def test_an_eta_that_is_over_is_forgotten(store: Store, clock: Clock) -> None:
    submit(store, new("later", delay=100))
    control.cancel(store, "later")
    clock.advance(101)

    again = edit_control.retry(store, "later")

    assert (again.state, again.eta) == ("pending", None)


def test_the_wait_before_a_retry_is_not_waited_for_again(store: Store) -> None:
    register(store)
    task = started(store, policy=Policy(retries=1, retry_wait=100.0))
    assert apply(store, task, Fail(BOOM)).state == "scheduled"
    control.cancel(store, task.id)

    assert edit_control.retry(store, task.id).state == "pending"


def test_what_waits_keeps_its_eta_for_later(store: Store) -> None:
    submit(store, new("first"))
    submit(store, new("later", delay=100, after=("first",)))
    eta = get(store, "later").eta
    control.cancel(store, "later")

    again = edit_control.retry(store, "later")

    assert (again.state, again.eta) == ("waiting", eta)
