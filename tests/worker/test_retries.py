"""Tasks in Python that say what is to become of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.core.submit.checks import new_task
from tests.faults.fleet import Fleet, until

JOBS = """
import stayer

app = stayer.App()

@app.task
def give_up():
    raise stayer.GiveUp("no use")

@app.task
def again(task: stayer.Context):
    if task.attempt < 3:
        raise stayer.Retry("the server is away", after=0.01)
    return task.attempt

@app.task
def snooze(task: stayer.Context):
    if task.attempt < 3:
        raise stayer.Snooze(0.01)
    return task.attempt
"""


@pytest.fixture
def apps(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    Path(fleet.folder / "jobs.py").write_text(JOBS)
    monkeypatch.setenv("PYTHONPATH", str(fleet.folder))
    fleet.worker("one", "--app", "jobs", lease=30)
    return fleet


def call(fleet: Fleet, name: str, **options: object) -> None:
    fleet.store.submit([new_task(queue="default", id=name, name=f"jobs.{name}", **options)])  # type: ignore[arg-type]


def test_giving_up_spends_no_retries(apps: Fleet) -> None:
    call(apps, "give_up", retries=5)
    task = apps.until_ended("give_up")
    assert (task.state, task.attempt, task.ending) == ("failed", 1, "error")
    assert task.error is not None
    assert (task.error.type, task.error.message) == ("stayer.core.errors.GiveUp", "no use")


def test_asking_for_another_try_is_a_failure_within_the_budget(apps: Fleet) -> None:
    call(apps, "again", retries=5)
    task = apps.until_ended("again")
    assert (task.state, task.result, task.failures) == ("complete", 3, 2)


def test_asking_too_often_is_the_end(apps: Fleet) -> None:
    call(apps, "again", retries=1)
    task = apps.until_ended("again")
    assert (task.state, task.attempt, task.failures) == ("failed", 2, 2)


def test_snoozing_is_free(apps: Fleet) -> None:
    call(apps, "snooze")
    task = apps.until_ended("snooze")
    assert (task.state, task.result, task.failures) == ("complete", 3, 0)
    assert apps.endings("snooze") == ["snoozed", "snoozed", "done"]


def test_a_wait_before_a_retry_is_seen_and_can_be_cut_short(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "false", retries=1, retry_wait=1000.0)
    until(lambda: fleet.get("a").state == "scheduled")
    task = fleet.get("a")
    assert task.eta is not None
    assert 750 <= task.eta - task.updated <= 1250
