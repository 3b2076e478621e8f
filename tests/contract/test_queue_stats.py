"""Store.sample and Store.figures: what queues did, counted once a minute by whoever comes first."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stayer.core.happenings import Done, Fail, Start
from stayer.core.insight.queue_stats import COUNTED, DAY, KEPT, Figures
from stayer.core.model import FINISHED, Fault
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.actors import sample_together, together
from tests.contract.builders import Clock, apply, fill, new, register, submit, take

BEGIN = 1_700_000_040.0
"""The beginning of a minute."""


@pytest.fixture
def clock() -> Clock:
    return Clock(BEGIN)


def all_of(store: Store, step: int = 60, since: float = 0.0) -> list[Figures]:
    return store.figures(since or BEGIN - DAY, BEGIN + 10 * DAY, step, None)


def each_of(store: Store, *queues: str, step: int = 60) -> list[Figures]:
    return store.figures(BEGIN - DAY, BEGIN + 10 * DAY, step, queues)


def run_one(store: Store, clock: Clock, queue: str, seconds: float, *, well: bool = True) -> None:
    [task] = take(store, queues=queue)
    started = apply(store, task, Start())
    clock.advance(seconds)
    apply(store, started, Done() if well else Fail(Fault("X")))


def test_a_minute_is_written_down_when_it_is_over(store: Store, clock: Clock) -> None:
    register(store, queues=("a", "b"))
    fill(store, 3, "a")
    fill(store, 2, "b")
    assert store.sample() == 60
    clock.advance(5)
    run_one(store, clock, "a", 10)
    run_one(store, clock, "a", 15, well=False)
    control.cancel(store, take(store, queues="b")[0].id)
    clock.advance(20)
    assert store.sample() == 10
    assert [point.submitted for point in all_of(store)] == [0], "only the minute before is over"

    clock.advance(12)
    assert store.sample() == 58

    whole = Figures(
        at=BEGIN, depth=2, running=1, age=62, submitted=5, complete=1, failed=1, ran=25,
        waited=5 + 15,
    )  # fmt: skip
    a = Figures(
        at=BEGIN, queue="a", depth=1, running=0, age=62, submitted=3, complete=1, failed=1, ran=25,
        waited=5 + 15,
    )  # fmt: skip
    b = Figures(at=BEGIN, queue="b", depth=1, running=1, age=62, submitted=2)
    assert all_of(store)[1:] == [whole]
    assert each_of(store)[-2:] == [a, b]
    assert each_of(store, "b")[-1:] == [b]
    assert each_of(store, "nobody") == []


def test_what_is_counted_is_counted_once(store: Store, other: Store, clock: Clock) -> None:
    store.sample()
    fill(store, 1)
    clock.advance(61)
    for each in (store, other, store, other):
        each.sample()
    assert [point.submitted for point in all_of(store)] == [0, 1]


def test_of_many_who_count_at_once_one_does(timely: Store, url: str) -> None:
    fill(timely, 3)
    together(sample_together, [(url,)] * 4)
    now = timely.now()
    for step in KEPT:
        found = timely.figures(now - 2 * DAY, now + DAY, step, None)
        assert sum(point.running is not None for point in found) <= 2, found
        assert sum(point.submitted for point in found) <= 3


def test_minutes_that_nobody_looked_at_are_made_up_for(store: Store, clock: Clock) -> None:
    register(store, lease=10_000.0)
    store.sample()
    clock.advance(30)
    fill(store, 2)
    clock.advance(60)
    run_one(store, clock, "q", 1)
    clock.advance(60)
    store.sample()
    before, first, second = all_of(store)
    assert before.submitted == 0
    assert (first.submitted, first.complete, first.depth, first.running) == (2, 0, None, None)
    assert (second.submitted, second.complete, second.depth, second.running) == (0, 1, 1, 0)


def test_after_a_long_silence_the_last_hour_is_made_up_for(store: Store, clock: Clock) -> None:
    store.sample()
    fill(store, 1)
    clock.advance(3 * 3600)
    fill(store, 1)
    clock.advance(60)
    store.sample()
    assert len(all_of(store)) == 1 + 60
    assert sum(point.submitted for point in all_of(store)) == 1


def test_a_queue_at_rest_is_not_told_of(store: Store, clock: Clock) -> None:
    store.set_queue("idle", paused=True)
    fill(store, 1, "busy")
    clock.advance(61)
    store.sample()
    assert {point.queue for point in each_of(store)} == {"busy"}


def test_hours_and_days_are_sums_and_peaks_of_minutes(store: Store, clock: Clock) -> None:
    register(store, lease=10_000.0, queues=("q",))
    clock.now = BEGIN // DAY * DAY + 3600 - 120
    store.sample()
    for depth in (4, 1, 2):
        for task in store.peek("q", 9):
            control.cancel(store, task.id)
        fill(store, depth)
        clock.advance(60)
        store.sample()
    hours = store.figures(0, BEGIN + DAY, 3600, ("q",))
    assert [(each.at % DAY, each.submitted, each.depth) for each in hours] == [
        (0, 5, 4),
        (3600, 2, 2),
    ]
    [day] = store.figures(0, BEGIN + DAY, DAY, ("q",))
    assert (day.at % DAY, day.submitted, day.cancelled, day.depth) == (0, 7, 5, 4)


def test_old_figures_are_forgotten_but_the_coarse_ones_last(store: Store, clock: Clock) -> None:
    store.sample()
    clock.advance(3 * DAY)
    store.sample()
    first = BEGIN - 60
    oldest = {step: min(each.at for each in all_of(store, step, 1.0)) for step in KEPT}
    assert oldest[3600] == first // 3600 * 3600
    assert oldest[DAY] == first // DAY * DAY
    if store.url.startswith("sqlite"):  # Redis forgets by its own clock
        assert oldest[60] > first


def test_a_window_includes_its_beginning_but_not_its_end(store: Store, clock: Clock) -> None:
    store.sample()
    for _ in range(4):
        clock.advance(60)
        store.sample()
    found = store.figures(BEGIN, BEGIN + 120, 60, None)
    assert [point.at for point in found] == [BEGIN, BEGIN + 60]
    assert [point.at for point in store.figures(BEGIN + 1, BEGIN + 119, 60, None)] == [BEGIN + 60]


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.integers(1, 90)), max_size=9)
)
def test_nothing_is_lost_or_counted_twice(fresh_url, steps) -> None:
    """The sums over all minutes are what happened, whatever happened between two looks."""
    from stayer.stores import open_store

    clock = Clock(BEGIN)
    store = open_store(fresh_url(), clock=clock)
    try:
        store.setup()
        register(store, lease=1e6, queues=("a", "b", "c"))
        store.sample()
        for number, queue, seconds in steps:
            submit(store, *(new(queue=queue) for _ in range(number)))
            for task in take(store, queues=queue):
                apply(store, apply(store, task, Start()), Done())
            clock.advance(seconds)
            store.sample()
        clock.advance(60)
        store.sample()
        points = each_of(store)
        for queue in store.queues():
            mine = [point for point in points if point.queue == queue.name]
            assert sum(point.submitted for point in mine) == sum(queue.counts.values())
            for state in FINISHED:
                assert sum(getattr(each, state) for each in mine) == queue.counts[state]
        for whole in all_of(store):
            at_once = [point for point in points if point.at == whole.at]
            for name in COUNTED:
                assert getattr(whole, name) == pytest.approx(
                    sum(getattr(point, name) for point in at_once)
                )
    finally:
        store.close()
