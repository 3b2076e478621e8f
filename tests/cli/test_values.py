"""What options understand, and what tables make of odd values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stayer.cli.param_types import since
from stayer.cli.tables import age, local_time, short_ids
from stayer.cli.task_tables import progress, run_time
from stayer.core.errors import BadInput
from stayer.core.model import Progress, Task

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def in_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("2h", 7200),
        ("90", 90),
        ("0", 0),
        ("now", 0),
        ("11:30", 1800),
        ("12:30", 23.5 * 3600),
        ("2026-11-15", 12 * 3600),
        ("2026-11-14T12:00:00Z", 24 * 3600),
        (str(int(NOW) - 5), 5),
    ],
)
def test_since_reads_durations_times_and_dates(text: str, ago: float) -> None:
    assert since(text, NOW) == NOW - ago


@pytest.mark.parametrize("text", ["+1h", "2026-11-16", "soon", "", "-1h", "inf"])
def test_since_refuses_the_future_and_nonsense(text: str) -> None:
    with pytest.raises(BadInput):
        since(text, NOW)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Progress(), ""),
        (Progress(done=3), "3"),
        (Progress(done=1, total=0), "1"),
        (Progress(done=1, total=3), "33%"),
        (Progress(message="warm-up"), "warm-up"),
        (Progress(done=1, total=2, remaining=60, message="m"), "50%  1m 00s left  m"),
        (Progress(done=float("nan"), total=2), "nan%"),
        (Progress(done=1, total=2, remaining=float("inf")), "50%  ? left"),
    ],
)
def test_progress_says_what_it_knows(made: Progress, said: str) -> None:
    assert progress(Task(id="t", queue="q", state="started", progress=made)) == said


def test_what_has_ended_has_nothing_left() -> None:
    made = Progress(done=1, total=2, remaining=60)
    assert progress(Task(id="t", queue="q", state="cancelled", progress=made)) == "50%"


def test_times_that_no_calendar_has_do_no_harm() -> None:
    assert local_time(None) == ""
    assert local_time(NOW) == "2026-11-15 12:00:00 UTC"
    assert local_time(1e300) == local_time(float("nan")) == "?"
    assert [age(seconds) for seconds in (-5, 1.9, float("inf"))] == ["0s", "1s", "?"]


def test_a_task_that_never_started_ran_no_time() -> None:
    assert run_time(Task(id="t", queue="q", state="cancelled", finished_at=5.0), 9.0) is None
    assert run_time(Task(id="t", queue="q", state="reserved", started_at=1.0), 9.0) is None
    assert run_time(Task(id="t", queue="q", state="started", started_at=1.0), 9.0) == "8s"


def test_no_ids_are_short_too() -> None:
    assert short_ids([]) == {}
