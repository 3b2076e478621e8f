"""Tasks that are late or report nothing: told once by all who look, on every store."""

from __future__ import annotations

from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Metric, Policy, Progress, Report, Series, Statistics, Task
from stayer.core.notify.hooks import Rules
from stayer.core.notify.notices import Notice, payload, sentence
from stayer.service.notify.slow_tasks import SlowTasks
from stayer.store import Store
from tests.contract.builders import Clock, apply, beat, get, register, started


def looker(store: Store, **rules: object) -> SlowTasks:
    return SlowTasks(store, lambda: Rules(**rules), is_server=True)  # type: ignore[arg-type]


def look(*lookers: SlowTasks) -> None:
    for each in lookers:
        each.look(0.0)


def found(store: Store) -> list[Notice]:
    return list(store.notices(None, None, None, 100).notices)


def run(store: Store, clock: Clock, seconds: float) -> None:
    task = started(store, name="train")
    clock.advance(seconds)
    apply(store, task, Done())


def test_a_task_that_is_late_is_told_once_an_attempt(
    store: Store, other: Store, clock: Clock
) -> None:
    register(store)
    for seconds in (60, 120, 90):
        run(store, clock, seconds)
    wanted = ("late:mail", "failed,late=100s:chat", "late=1h:later")
    task = started(store, name="train", notify=wanted)
    lookers = looker(store), looker(other)
    clock.advance(99)
    look(*lookers)
    assert found(store) == []

    clock.advance(2)
    look(*lookers)
    assert [(notice.to, notice.event) for notice in found(store)] == [("chat", "late")]

    clock.advance(140)  # twice the longest
    look(*lookers, *lookers, looker(store))
    assert [notice.to for notice in found(store)] == ["mail", "chat"]
    assert sentence(found(store)[0]) == (
        f"{task.id} (train) is late: it has run for 4m 01s, the longest of its kind took 2m 00s "
        "lately [queue q, attempt 1]"
    )
    assert payload(found(store)[0])["type"] == "task.late"

    # The words beside it still count.
    apply(store, get(store, task.id), Fail(Fault("E", "m")))
    assert sorted(notice.event for notice in found(store)) == ["failed", "late", "late"]


def test_a_task_near_its_time_limit_is_late(store: Store, clock: Clock) -> None:
    register(store)
    started(store, policy=Policy(time_limit=1000.0))
    one = looker(store, late=("mail",))
    clock.advance(890)
    look(one)
    assert found(store) == []
    clock.advance(20)
    look(one, looker(store))
    assert [(notice.to, notice.event) for notice in found(store)] == [("mail", "late")]
    assert "stopped after 16m 40s" in sentence(found(store)[0])


def test_a_task_that_reports_nothing_is_told_once_a_silence(
    store: Store, other: Store, clock: Clock
) -> None:
    register(store)
    task = started(store, notify=("no_progress=10m:mail",))
    started(store)  # nobody asked for this one
    lookers = looker(store), looker(other)

    def wait(seconds: float, *reports: Report) -> int:
        clock.advance(seconds)
        if reports:
            wait.number += 1  # type: ignore[attr-defined]
            beat(store, "w", wait.number, *reports)  # type: ignore[attr-defined]
        look(*lookers)
        return len(found(store))

    wait.number = 1  # type: ignore[attr-defined]
    assert wait(599) == 0
    assert wait(1, report(task, progress=Progress(done=1, total=2, at=clock() + 1))) == 0
    assert wait(599) == 0
    values = {"loss": Series(last=0.5, count=1, points=((1.0, None, 0.5),))}
    assert wait(1, report(task, statistics=Statistics(metrics=values))) == 0
    assert isinstance((get(store, task.id).metrics or {})["loss"], Metric)
    assert wait(599) == 0
    assert wait(2) == 1
    assert wait(5000) == 1
    assert (found(store)[0].event, found(store)[0].task) == ("no_progress", task.id)
    assert "it has reported nothing for 10m 01s" in sentence(found(store)[0])

    # When it goes on, and falls silent again, that is another silence.
    assert wait(1, report(task, progress=Progress(done=2, total=2, at=clock() + 1))) == 1
    assert wait(601) == 2


def report(task: Task, **news: object) -> Report:
    return Report(id=task.id, attempt=task.attempt, **news)  # type: ignore[arg-type]


def test_a_task_that_is_paused_is_neither(store: Store, clock: Clock) -> None:
    register(store)
    task = started(store, notify=("no_progress=10m:mail",))
    beat(store, "w", 2, report(task, paused=True))
    one = looker(store, late=("mail",))
    clock.advance(6000)
    look(one)
    beat(store, "w", 3, report(task, paused=False))
    clock.advance(500)
    look(one)
    assert found(store) == []
    clock.advance(200)
    look(one)
    assert [notice.event for notice in found(store)] == ["no_progress"]
