"""What reports say of an attempt's own statistics."""

from __future__ import annotations

from msgspec.structs import replace

from stayer.core.happenings import Interrupt, Start
from stayer.core.insight.statistics import Recorder
from stayer.core.model import Metric, Report, Statistics, Usage
from stayer.store import Store
from tests.contract.builders import Clock, apply, beat, get, register, started, take_one


def recorded(*values: float) -> Statistics:
    recorder = Recorder()
    recorder.begin("load", 0.5)
    for number, value in enumerate(values):
        recorder.add("loss", value, float(number), float(number))
    return recorder.result()


def test_statistics_come_back_as_they_were_and_their_latest_values_are_in_the_record(
    store: Store, clock: Clock
) -> None:
    register(store)
    task = started(store)
    assert (store.statistics(task.id, 1), get(store, task.id).metrics) == (None, None)
    clock.advance(3)
    own = recorded(0.5, 0.25, 0.75)
    beat(store, "w", 2, Report(id=task.id, attempt=1, statistics=own))
    assert store.statistics(task.id, 1) == replace(own, at=clock.now)
    record = get(store, task.id)
    assert record.metrics == {"loss": Metric(0.75, 0.25, 0.75, 3, 2.0)}
    assert record.updated == clock.now
    later = recorded(0.5, 0.25, 0.75, 0.1)
    beat(store, "w", 3, Report(id=task.id, attempt=1, statistics=later))
    assert store.statistics(task.id, 1) == replace(later, at=clock.now)


def test_statistics_are_no_point_of_the_usage(store: Store, clock: Clock) -> None:
    register(store)
    task = started(store)
    own = recorded(1.0)
    beat(store, "w", 2, Report(id=task.id, attempt=1, statistics=own))
    assert store.usage(task.id, 1) == []
    assert store.attempts(task.id)[0].usage is None
    # The last of these begins a wider grid, and points off that go.
    for number, ran in enumerate((4.0, 5.0, 12.5, 2400.0), 3):
        beat(store, "w", number, Report(id=task.id, attempt=1, usage=Usage(ran=ran)))
    assert [point.ran for point in store.usage(task.id, 1)] == [4.0, 12.5, 2400.0]
    assert store.statistics(task.id, 1) == replace(own, at=clock.now)


def test_each_attempt_has_its_own(store: Store, clock: Clock) -> None:
    register(store)
    task = started(store)
    first, second = recorded(1.0), recorded(2.0)
    beat(store, "w", 2, Report(id=task.id, attempt=1, statistics=first))
    apply(store, get(store, task.id), Interrupt("moved"))
    again = take_one(store)
    apply(store, again, Start(7))
    # Until the new one reports something, the record shows what the last one came to.
    assert get(store, task.id).metrics == {"loss": Metric(1.0, 1.0, 1.0, 1, 0.0)}
    beat(store, "w", 3, Report(id=task.id, attempt=1, statistics=recorded(9.0)))
    assert store.statistics(task.id, 1) == replace(first, at=clock.now)
    beat(store, "w", 4, Report(id=task.id, attempt=2, statistics=second))
    assert store.statistics(task.id, 2) == replace(second, at=clock.now)
    assert get(store, task.id).metrics == {"loss": Metric(2.0, 2.0, 2.0, 1, 0.0)}


def test_nobody_has_none(store: Store) -> None:
    assert store.statistics("nobody", 1) is None
