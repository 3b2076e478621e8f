"""Figures gathered into longer stretches, and which of them a chart is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core.insight.queue_stats import COUNTED, DAY, Figures, level, record, together

POINTS = st.lists(
    st.builds(
        Figures,
        at=st.integers(0, 500).map(lambda minute: minute * 60.0),
        queue=st.sampled_from(["", "a"]),
        depth=st.none() | st.integers(0, 9),
        submitted=st.integers(0, 9),
        ran=st.integers(0, 9).map(float),
    ),
    max_size=30,
    unique_by=lambda point: (point.at, point.queue),
)


@given(POINTS, st.sampled_from([60.0, 300.0, 3600.0]))
def test_sums_stay_and_peaks_stay(points: list[Figures], step: float) -> None:
    gathered = together(points, step)
    assert [(each.at, each.queue) for each in gathered] == sorted(
        {(point.at // step * step, point.queue) for point in points}
    )
    for each in gathered:
        of_it = [
            point
            for point in points
            if point.queue == each.queue and each.at <= point.at < each.at + step
        ]
        for name in COUNTED:
            assert getattr(each, name) == sum(getattr(point, name) for point in of_it)
        known = [point.depth for point in of_it if point.depth is not None]
        assert each.depth == max(known, default=None)


@pytest.mark.parametrize(
    ("step", "back", "expected"),
    [
        (60, 3600, 60),
        (300, DAY, 60),
        (3600, DAY, 3600),
        (7200, 2 * DAY, 3600),
        (60, 3 * DAY, 3600),
        (DAY, 3 * DAY, DAY),
        (3600, 100 * DAY, DAY),
        (60, 10_000 * DAY, DAY),
    ],
)
def test_a_chart_is_made_of_the_longest_stretches_that_fit(
    step: float, back: float, expected: int
) -> None:
    assert level(step, back) == expected


def test_all_queues_together_have_no_name() -> None:
    shown = record(Figures(at=0.0, depth=1))
    assert (shown["at"], shown["queue"], shown["depth"]) == ("1970-01-01T00:00:00.000Z", None, 1)
