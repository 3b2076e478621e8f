"""Why a task is where it is, and when it will start, on every store."""

from __future__ import annotations

import pytest

from stayer.core.errors import UnknownTask
from stayer.core.happenings import Done, Fail, Start
from stayer.core.insight.explanation import Span
from stayer.core.model import Fault, Policy, Progress, Report
from stayer.core.queue_model import Rate
from stayer.core.worker_model import Handles
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from stayer.service.explain import explain, why_silent, why_waiting
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    fill,
    get,
    new,
    register,
    started,
    submit,
    take,
    taken,
    worker,
)


def reasons(store: Store, id: str) -> list[str]:
    return [each.reason for each in explain(store, id).reasons]


def text(store: Store, id: str, reason: str) -> str:
    [found] = [each.text for each in explain(store, id).reasons if each.reason == reason]
    return found


def test_nobody_listens(store: Store) -> None:
    submit(store, new("t"))
    register(store, "deaf", queues=("other",))
    assert reasons(store, "t") == ["no-worker"]
    assert "stayer worker -q q" in text(store, "t", "no-worker")
    assert why_waiting(explain(store, "t")).startswith("no worker listens to queue q")
    assert explain(store, "t").forecast is None


def test_everything_is_said_at_once(store: Store) -> None:
    fill(store, 2)
    submit(store, new("t", held=True))
    queue_control.pause_queue(store, "q")
    assert reasons(store, "t") == ["held", "queue-paused", "no-worker", "ahead"]
    assert "stayer resume -q q" in text(store, "t", "queue-paused")
    assert explain(store, "t").ahead == 2


def test_it_is_due_later(store: Store) -> None:
    register(store)
    submit(store, new("t", delay=90))
    assert reasons(store, "t") == ["eta"]
    assert "1m 30s" in text(store, "t", "eta")
    found = explain(store, "t").forecast
    assert found is not None
    assert found.starts == Span(*[store.now() + 90] * 3)


def test_it_is_tried_again(store: Store) -> None:
    register(store)
    task = started(store, id="t", policy=Policy(retries=1, retry_wait=60.0))
    apply(store, task, Fail(Fault("ValueError", "no")))
    assert get(store, "t").state == "scheduled"
    assert reasons(store, "t") == ["retry"]
    said = text(store, "t", "retry")
    assert "attempt 1" in said
    assert "ValueError" in said


def test_its_queue_is_full_and_of_what(store: Store) -> None:
    register(store, slots=9)
    store.set_queue("q", limit=1)
    taken(store, id="greedy")
    submit(store, new("t"))
    assert reasons(store, "t") == ["queue-full"]
    assert "1 at once (greedy)" in text(store, "t", "queue-full")


def test_no_worker_can_run_such_tasks(store: Store) -> None:
    register(store, handles=Handles(names=("train",), programs=("ff*",)))
    submit(store, new("command", command=("rm", "-rf")), new("named", name="tr"), new("plain"))
    for id, word in (("command", "'rm'"), ("named", "'tr'"), ("plain", "neither")):
        assert reasons(store, id)[0] == "no-handler"
        said = text(store, id, "no-handler")
        assert word in said
        assert "node-of-w" in said
        assert explain(store, id).forecast is None
    submit(store, new("good", command=("ffmpeg",)), new("train", name="train"))
    assert "no-handler" not in reasons(store, "good") + reasons(store, "train")


def test_its_workers_drain(store: Store) -> None:
    register(store, draining=True)
    submit(store, new("t"))
    assert reasons(store, "t") == ["draining"]


def test_workers_are_busy_and_others_come_first(store: Store, clock: Clock) -> None:
    register(store, slots=2)
    taken(store)
    taken(store)
    fill(store, 3, priority=1)
    submit(store, new("t"))
    assert reasons(store, "t") == ["busy", "ahead"]
    assert text(store, "t", "ahead").startswith("3 tasks")
    control.set(store, "t", priority=2)
    assert reasons(store, "t") == ["busy"]


def test_it_is_about_to_start(store: Store) -> None:
    register(store)
    submit(store, new("t"))
    assert reasons(store, "t") == ["next"]


def test_it_runs(store: Store, clock: Clock) -> None:
    register(store)
    task = taken(store, id="t")
    assert reasons(store, "t") == ["reserved"]
    apply(store, task, Start(pid=7))
    beat(store, "w", 2, Report(id="t", attempt=1, progress=Progress(message="epoch 3")))
    clock.advance(65)
    beat(store, "w", 3)
    assert reasons(store, "t") == ["running"]
    assert text(store, "t", "running") == "it has run on node-of-w for 1m 05s: epoch 3"
    assert why_silent(explain(store, "t")) is None
    control.pause(store, "t")
    beat(store, "w", 4, Report(id="t", attempt=1, paused=True))
    assert reasons(store, "t") == ["paused", "running"]
    control.cancel(store, "t")
    assert reasons(store, "t")[0] == "cancel-wanted"


def test_it_has_not_told_of_its_progress_for_long(store: Store, clock: Clock) -> None:
    register(store)
    started(store, id="t")
    beat(store, "w", 2, Report(id="t", attempt=1, progress=Progress(done=1)))
    clock.advance(700)
    beat(store, "w", 3)
    assert reasons(store, "t") == ["running", "no-progress"]


@pytest.mark.parametrize("keeps", [False, True])
def test_its_worker_is_silent(store: Store, clock: Clock, keeps: bool) -> None:
    register(store, keeps=keeps, lease=10.0)
    started(store, id="t")
    clock.advance(100)
    assert reasons(store, "t")[0] == ("worker-keeps" if keeps else "worker-silent")
    assert "node-of-w has been silent for 1m 40s" in (why_silent(explain(store, "t")) or "")
    assert explain(store, "t").forecast is None


def test_how_it_ended(store: Store) -> None:
    register(store)
    apply(store, started(store, id="good"), Done())
    apply(store, started(store, id="bad"), Fail(Fault("ValueError", "no")))
    submit(store, new("stopped"))
    control.cancel(store, "stopped")
    assert reasons(store, "good") == ["complete"]
    assert reasons(store, "stopped") == ["cancelled"]
    assert reasons(store, "bad") == ["failed"]
    assert "ValueError: no" in text(store, "bad", "failed")
    assert "stayer retry bad" in text(store, "bad", "failed")


def test_a_forecast_rests_on_the_tasks_before(store: Store, clock: Clock) -> None:
    # Given tasks of one kind that took ten seconds each
    register(store, slots=2, lease=1000.0)
    for _ in range(4):
        submit(store, new(name="encode"))
        running = apply(store, take(store)[0], Start())
        clock.advance(10)
        apply(store, running, Done())
    # When two run, one of them for four seconds, and two are in line
    started(store, name="encode")
    clock.advance(4)
    started(store, name="encode")
    fill(store, 2, name="encode")
    submit(store, new("t", name="encode"))
    # Then the one behind them waits for two rounds
    found = explain(store, "t").forecast
    assert found is not None
    now = store.now()
    assert (found.starts, found.ends, found.samples) == (
        Span(*[now + 16] * 3), Span(*[now + 26] * 3), 4,
    )  # fmt: skip


def test_a_limit_makes_the_line_longer(store: Store, clock: Clock) -> None:
    register(store, slots=8, lease=1000.0)
    running = [started(store, name="encode") for _ in range(3)]
    clock.advance(10)
    for each in running:
        apply(store, each, Done())
    store.set_queue("q", limit=1)
    started(store, name="encode")
    fill(store, 1, name="encode")
    submit(store, new("t", name="encode"))
    found = explain(store, "t").forecast
    assert found is not None
    assert found.starts == Span(*[store.now() + 20] * 3)


def test_what_a_task_says_of_its_end_is_believed(store: Store, clock: Clock) -> None:
    register(store)
    started(store, id="t")
    report = Report(id="t", attempt=1, progress=Progress(remaining=100.0))
    beat(store, worker(), 2, report)
    clock.advance(20)
    found = explain(store, "t").forecast
    assert found is not None
    assert found.starts is None
    assert found.ends == Span(store.now() + 60, store.now() + 80, store.now() + 120)


def test_what_is_not_there_is_not_explained(store: Store) -> None:
    with pytest.raises(UnknownTask):
        explain(store, "nobody")


def test_a_full_key_and_a_spent_rate_are_in_the_forecast(store: Store, clock: Clock) -> None:
    # Given a kind that takes ten seconds, and one of a key that has run for four
    register(store, slots=8, lease=1000.0)
    running = [started(store, name="encode") for _ in range(3)]
    clock.advance(10)
    for each in running:
        apply(store, each, Done())
    submit(store, new("first", name="encode", key="k"))
    apply(store, take(store)[0], Start())
    clock.advance(4)
    submit(store, new("t", name="encode", key="k"))
    # When its key is limited, it waits for the other one
    store.set_queue("q", key_limits={"k": 1})
    found = explain(store, "t").forecast
    assert reasons(store, "t") == ["key-full"]
    assert found is not None
    assert (found.starts, found.ends) == (
        Span(*[store.now() + 6] * 3), Span(*[store.now() + 16] * 3),
    )  # fmt: skip
    # And when its queue is, until that lets it
    store.set_queue("q", key_limits={"k": None}, rate=Rate(1, 60.0))
    submit(store, new("before", name="encode", priority=1))
    take(store)
    assert reasons(store, "t") == ["rate"]
    found, following = explain(store, "t").forecast, store.queues(["q"])[0].next_start
    assert found is not None
    assert following is not None
    assert found.starts == Span(*[following] * 3)


def test_what_nobody_can_run_is_passed_over(store: Store) -> None:
    register(store, handles=Handles(names=("train",)))
    submit(store, new("stranger", name="other"), new("one", name="train"), new("t", name="train"))
    assert reasons(store, "one") == ["next"]
    assert reasons(store, "t") == ["ahead"]
    assert text(store, "t", "ahead").startswith("one task of its queue is taken first: it has")
    assert explain(store, "t").ahead == 1


def test_the_worker_that_could_take_it_is_silent(store: Store, clock: Clock) -> None:
    register(store, lease=120.0)
    submit(store, new("t"))
    clock.advance(60)
    assert reasons(store, "t") == ["workers-silent"]
    assert "node-of-w has been silent for 1m 00s" in text(store, "t", "workers-silent")
    assert explain(store, "t").forecast is None
    clock.advance(100)
    assert "node-of-w has been silent for 2m 40s" in text(store, "t", "no-worker")


def test_its_worker_is_silent_but_has_its_lease(store: Store, clock: Clock) -> None:
    register(store, lease=120.0)
    started(store, id="t")
    clock.advance(60)
    assert reasons(store, "t")[0] == "worker-silent"
    assert "in 1m 00s the task stands still" in text(store, "t", "worker-silent")


def test_when_it_expires(store: Store, clock: Clock) -> None:
    submit(store, new("t", expire=90))
    assert reasons(store, "t") == ["no-worker", "expires"]
    assert "in 1m 30s" in text(store, "t", "expires")
    clock.advance(120)
    assert reasons(store, "t")[0] == "expired"
    assert "30s ago" in text(store, "t", "expired")
