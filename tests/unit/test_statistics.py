"""What is kept of what an attempt reports, however much that is."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import pytest

from stayer.core.insight.statistics import (
    ALL_POINTS,
    METRICS,
    NAME_LENGTH,
    POINTS,
    STEPS,
    Recorder,
    latest_values,
    step_elapsed,
    weight,
)
from stayer.core.model import Metric, Step


def filled(count: int, name: str = "loss") -> Recorder:
    recorder = Recorder()
    for number in range(count):
        recorder.add(name, float(number), float(number))
    return recorder


@pytest.mark.parametrize("count", [1, POINTS, POINTS + 1, 1000, 3 * 86_400])
def test_a_series_stays_short_and_evenly_spread_and_ends_with_the_newest(count: int) -> None:
    series = filled(count).result().metrics["loss"]
    values = [value for _, _, value in series.points if value is not None]
    assert (values[0], values[-1]) == (0.0, count - 1)
    assert min(count, POINTS // 2) <= len(values) <= POINTS
    gaps = {later - earlier for earlier, later in pairwise(values[:-1])}
    assert len(gaps) <= 1
    assert (series.count, series.min, series.max, series.last) == (count, 0, count - 1, count - 1)


def test_three_days_of_a_point_a_second_are_a_few_kilobytes() -> None:
    found = filled(3 * 86_400).result()
    size = len(msgspec.json.encode(found))
    assert size < 10_000
    assert size <= weight(found)


def test_all_series_together_are_bounded_and_so_is_the_number_of_names() -> None:
    recorder = Recorder()
    for number in range(300):
        for name in range(METRICS + 5):
            recorder.add(f"m{name}", number, float(number))
    found = recorder.result()
    assert len(found.metrics) == METRICS
    assert sum(len(series.points) for series in found.metrics.values()) <= ALL_POINTS
    assert found.left_out == 5 * 300


def test_least_and_most_are_of_all_values_also_of_those_that_are_not_kept() -> None:
    recorder = filled(100)
    recorder.add("loss", -5, 100.0)
    for number in range(1000):
        recorder.add("loss", 1.0, 101.0 + number)
    series = recorder.result().metrics["loss"]
    assert series.min == -5


def test_what_is_not_a_number_is_known_but_no_least() -> None:
    recorder = Recorder()
    for value in (2.0, math.nan, None, math.inf):
        assert recorder.add("loss", value, 1.0)
    series = recorder.result().metrics["loss"]
    assert (series.last, series.min, series.max, series.count) == (None, 2.0, 2.0, 4)
    assert latest_values(recorder.result()) == {"loss": Metric(None, 2.0, 2.0, 4)}


def test_a_value_may_stand_for_several() -> None:
    recorder = Recorder()
    assert recorder.take({"metric": {"n": {"last": 3, "min": 1, "max": 9, "count": 7}}}, 1, 0)
    series = recorder.result().metrics["n"]
    assert (series.last, series.min, series.max, series.count) == (3, 1, 9, 7)


@pytest.mark.parametrize(
    "content",
    [{}, {"metric": 3}, {"metric": {"a": "b"}}, {"metric": {"a": [1]}}, {"step": 3}, {"step": " "},
     {"step": "a", "end": True}],
)  # fmt: skip
def test_what_makes_no_sense_is_passed_over(content: dict[str, object]) -> None:
    recorder = Recorder()
    assert not recorder.take(content, 1.0, 0.0)
    assert recorder.result().metrics == {}
    assert recorder.result().steps == ()


def test_a_report_is_of_the_time_that_it_says_but_never_of_the_future_or_before_the_last() -> None:
    recorder = Recorder()
    for at in (90.0, 95.0, 80.0, 200.0):
        recorder.take({"metric": {"a": 1}, "at": at}, now=50.0, wall=100.0)
    assert [point[0] for point in recorder.result().metrics["a"].points] == [40, 45, 45, 50]


def test_a_step_ends_when_the_next_begins() -> None:
    recorder = Recorder()
    recorder.take({"step": "load"}, 1.0, 0.0)
    recorder.take({"step": "train"}, 4.0, 0.0)
    load, train = recorder.result().steps
    assert load == Step("load", 1.0, 4.0, 3.0)
    assert train == Step("train", 4.0, None, 0.0, 1, 4.0)
    assert step_elapsed(train, ran=10.0) == 6.0
    assert step_elapsed(load, ran=10.0) == 3.0


def test_a_nested_step_leaves_the_other_open() -> None:
    recorder = Recorder()
    recorder.take({"step": "train"}, 1.0, 0.0)
    recorder.take({"step": "epoch", "nested": True}, 2.0, 0.0)
    recorder.take({"step": "epoch", "end": True, "elapsed": 0.5}, 3.0, 0.0)
    recorder.take({"step": "epoch", "nested": True}, 4.0, 0.0)
    recorder.take({"step": "epoch", "end": True}, 6.0, 0.0)
    train, epoch = recorder.result().steps
    assert train.end is None
    assert epoch == Step("epoch", 2.0, 6.0, 2.5, 2)


def test_of_many_steps_the_first_and_the_newest_are_kept() -> None:
    recorder = Recorder()
    for number in range(1000):
        recorder.begin(f"s{number}", float(number))
    names = [step.name for step in recorder.result().steps]
    half = STEPS // 2
    kept = [*range(half), *range(1000 - half, 1000)]
    assert names == [f"s{number}" for number in kept]
    assert recorder.result().left_out == 1000 - STEPS


def test_names_are_short_and_printable() -> None:
    recorder = Recorder()
    recorder.add("a\nb" + "x" * 500, 1, 0.0)
    [name] = recorder.result().metrics
    assert name == ("a b" + "x" * 500)[:NAME_LENGTH]


def test_it_goes_on_where_it_was_written_down() -> None:
    whole, first = filled(700), filled(300)
    restored = msgspec.json.decode(msgspec.json.encode(first), type=Recorder)
    for number in range(300, 700):
        restored.add("loss", float(number), float(number))
    assert restored.result() == whole.result()
