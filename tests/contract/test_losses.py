"""Losses are counted from what the store knows, not from what somebody read a while ago."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Start, WorkerLost
from stayer.core.lifecycle import decide
from stayer.core.model import Policy, Progress, Report, Task
from stayer.service.control import edits as edit_control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract.builders import apply, beat, commit, get, register, started, take_one

TWO_OF_THREE = 2


def news(task: Task, kind: str) -> Report:
    """What a task that gets on tells of itself."""
    if kind == "progress":
        return Report(id=task.id, attempt=task.attempt, progress=Progress(done=1.0))
    return Report(id=task.id, attempt=task.attempt, checkpoint=b"saved")


def lost_twice(store: Store) -> Task:
    """Running again after two losses in a row; the third one would set it aside."""
    task = started(store, policy=Policy(losses=3))
    for _ in range(TWO_OF_THREE):
        apply(store, task, WorkerLost())
        task = apply(store, take_one(store), Start(pid=1))
    assert task.losses == TWO_OF_THREE
    return task


@pytest.mark.parametrize("kind", ["progress", "checkpoint"])
def test_one_who_read_the_task_before_its_news_must_read_it_again(store: Store, kind: str) -> None:
    register(store)
    task = lost_twice(store)
    beat(store, "w", 2, news(task, kind))
    assert commit(store, task, WorkerLost()) is None
    current = get(store, task.id)
    assert (current.state, current.losses) == ("started", 0)
    back = apply(store, current, WorkerLost())
    assert (back.state, back.losses) == ("pending", 1)


@pytest.mark.parametrize("kind", ["progress", "checkpoint"])
def test_a_loss_counts_from_the_newest(store: Store, kind: str) -> None:
    register(store, "judge")
    register(store)
    task = lost_twice(store)
    # When it tells of itself just between the judge's look and its deed
    beat(store, "w", 2, news(task, kind))
    store.declare_lost("judge", {"w": 2})
    assert worker_control.return_lost_tasks(store, [task]) == 1
    back = get(store, task.id)
    assert (back.state, back.losses) == ("pending", 1)


def test_a_loss_without_news_counts_on(store: Store) -> None:
    register(store)
    task = lost_twice(store)
    aside = apply(store, task, WorkerLost())
    assert (aside.state, aside.ending, aside.losses) == ("failed", "lost", 3)


def test_what_somebody_else_has_settled_is_not_lost_again(store: Store) -> None:
    register(store)
    task = lost_twice(store)
    apply(store, task, WorkerLost())
    assert worker_control.return_lost_tasks(store, [task]) == 0


def test_in_one_commit_the_start_and_the_loss_of_a_short_life(store: Store) -> None:
    register(store)
    task = lost_twice(store)
    apply(store, task, WorkerLost())
    edit_control.retry(store, task.id)
    fresh = take_one(store)
    start = decide(fresh, Start(pid=1))
    begun = get(store, fresh.id)
    end = decide(replace(begun, state="started"), WorkerLost())
    assert all(store.commit([start, end]))
    assert get(store, fresh.id).losses == 1
