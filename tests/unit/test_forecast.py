"""When a task starts and ends, against a plain simulation of slots."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core.insight import forecast
from stayer.core.insight.explanation import Forecast, Span
from stayer.core.insight.forecast import (
    Line,
    Runs,
    forecast_running,
    forecast_waiting,
    nth_start,
    quartiles,
)

SECONDS = st.floats(0, 1e6).map(lambda seconds: round(seconds, 3))
LENGTHS = st.floats(0.001, 1e5).map(lambda seconds: round(seconds, 3))


def simulated(free: Sequence[float], durations: Sequence[float]) -> float:
    """Slot by slot, task by task: when the one behind all of these starts."""
    slots = list(free)
    for duration in durations:
        first = slots.index(min(slots))
        slots[first] += duration
    return min(slots)


@given(
    st.lists(SECONDS, min_size=1, max_size=12),
    st.lists(LENGTHS, max_size=30),
    st.integers(0, 300),
    LENGTHS,
)
def test_the_start_is_that_of_a_simulation(
    free: list[float], durations: list[float], more: int, each: float
) -> None:
    expected = simulated(free, [*durations, *([each] * more)])
    assert nth_start(free, durations, more, each) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_a_million_before_it_cost_nothing() -> None:
    assert nth_start([0.0] * 100, [], 1_000_000, 60.0) == pytest.approx(600_000)
    assert nth_start([0.0, 864_000.0], [], 1_000_000, 0.001) == pytest.approx(1000.0)


def levels(span: Span | None) -> tuple[float, float, float]:
    assert span is not None
    return span.low, span.likely, span.high


ENOUGH = st.lists(LENGTHS, min_size=4, max_size=9)
HISTORIES = st.fixed_dictionaries({"a": ENOUGH, "b": ENOUGH, "c": ENOUGH})
LINES = st.builds(
    Line,
    slots=st.integers(1, 6),
    running=st.lists(
        st.builds(Runs, st.sampled_from(["a", "b", "c"]), SECONDS, st.none() | SECONDS), max_size=8
    ),
    ahead=st.lists(st.sampled_from(["a", "b", "c"]), max_size=20),
    more=st.integers(0, 50),
    not_before=SECONDS,
)


@given(LINES, HISTORIES)
def test_a_forecast_is_a_range_and_an_end_comes_after_its_start(
    line: Line, history: dict[str, list[float]]
) -> None:
    found = forecast_waiting("a", line, history)
    starts, ends = levels(found.starts), levels(found.ends)
    for low, likely, high in (starts, ends):
        assert line.not_before <= low <= likely + 1e-6
        assert likely <= high + 1e-6
    assert all(end >= start for start, end in zip(starts, ends, strict=True))


@given(LINES, HISTORIES)
def test_who_stands_further_behind_starts_no_earlier(
    line: Line, history: dict[str, list[float]]
) -> None:
    behind = Line(
        slots=line.slots, running=line.running, ahead=[*line.ahead, "b"], more=line.more,
        not_before=line.not_before,
    )  # fmt: skip
    before, after = (levels(forecast_waiting("a", each, history).starts) for each in (line, behind))
    assert all(late >= early - 1e-6 for early, late in zip(before, after, strict=True))


def test_equal_tasks_come_in_rounds() -> None:
    history = {"a": [10.0] * 5}
    line = Line(slots=2, running=[Runs("a", 4.0), Runs("a", 9.0)], ahead=["a"] * 3)
    found = forecast_waiting("a", line, history)
    # Free at 1 and 6, taken until 11 and 16, then until 21: the next is the one at 16.
    assert found == Forecast(starts=Span(16, 16, 16), ends=Span(26, 26, 26), samples=5)


def test_the_range_is_that_of_the_quartiles() -> None:
    history = {"a": [10.0, 20.0, 30.0, 40.0, 50.0]}
    line = Line(slots=1, ahead=["a", "a"])
    assert forecast_waiting("a", line, history).starts == Span(40, 60, 80)
    assert quartiles([]) is None
    assert quartiles([7.0]) == Span(7, 7, 7)


def test_with_a_free_slot_it_starts_now_whatever_is_known() -> None:
    assert forecast_waiting("a", Line(slots=1), {}) == Forecast(starts=Span(0, 0, 0))
    assert forecast_waiting("a", Line(slots=1, not_before=5.0), {}).starts == Span(5, 5, 5)


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert forecast_waiting("a", Line(slots=1, ahead=["a"]), {}) == Forecast()
    assert forecast_waiting("a", Line(slots=1, running=[Runs("a", 3.0)]), {}) == Forecast()
    assert forecast_waiting("a", Line(slots=0), {"a": [1.0]}) == Forecast(samples=1)
    assert forecast_running(Runs("a", 3.0), {}) == Forecast()


def test_a_kind_that_was_never_seen_is_judged_by_the_others() -> None:
    assert forecast_waiting("new", Line(slots=1), {"old": [8.0] * 10}).ends == Span(8, 8, 8)
    mixed = {"new": [2.0], "old": [8.0] * 10}
    assert forecast_waiting("new", Line(slots=1), mixed).ends == Span(1, 2, 4)
    assert forecast_waiting("new", Line(slots=1, ahead=["new"]), mixed).starts is None


def test_a_running_task_ends_as_those_did_that_came_so_far() -> None:
    history = {"a": [10.0, 20.0, 30.0]}
    assert forecast_running(Runs("a", 15.0), history).ends == quartiles([5.0, 15.0])
    assert forecast_running(Runs("a", 15.0, reported=100.0), history).ends == Span(75, 100, 150)
    assert forecast_running(Runs("a", 40.0), history).ends == Span(0, 20, 40)


def test_more_may_run_than_there_are_slots() -> None:
    history = {"a": [10.0] * 3}
    running = [Runs("a", 9.0), Runs("a", 5.0), Runs("a", 2.0)]
    assert forecast.forecast_waiting("a", Line(slots=1, running=running), history).starts == Span(
        8, 8, 8
    )


def test_one_task_of_another_kind_tells_nothing() -> None:
    """A task of 16 ms says nothing of those that take a minute."""
    history = {"true": [0.016]}
    behind = Line(slots=1, running=[Runs("sleep", 7.0)])
    assert forecast_waiting("sleep", behind, history) == Forecast()
    assert forecast_running(Runs("sleep", 7.0), history) == Forecast()
    assert forecast_waiting("true", Line(slots=1, ahead=["sleep"]), history).starts is None


def test_a_free_slot_needs_no_history() -> None:
    found = forecast_waiting("a", Line(slots=2, running=[Runs("a", 7.0)]), {})
    assert (levels(found.starts), found.ends) == ((0.0, 0.0, 0.0), None)


def test_few_of_its_kind_give_a_wide_range() -> None:
    found = forecast_waiting("a", Line(slots=1), {"a": [10.0]})
    assert levels(found.ends) == (5.0, 10.0, 20.0)
    assert found.samples == 1
    found = forecast_waiting("a", Line(slots=1), {"a": [10.0, 30.0]})
    assert levels(found.ends) == (5.0, 20.0, 60.0)
    assert levels(forecast_running(Runs("a", 4.0), {"a": [10.0]}).ends) == (1.0, 6.0, 16.0)
    assert forecast_running(Runs("a", 11.0), {"a": [10.0]}).ends is None


def test_many_of_the_queue_stand_in_for_its_kind() -> None:
    history = {"b": [10.0] * 5, "c": [10.0] * 5}
    assert levels(forecast_waiting("a", Line(slots=1, ahead=["a"]), history).ends) == (
        20.0,
        20.0,
        20.0,
    )
    fewer = {"b": [10.0] * 5, "c": [10.0] * 4}
    assert forecast_waiting("a", Line(slots=1, ahead=["a"]), fewer) == Forecast()
