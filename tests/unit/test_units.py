"""What people write for durations, sizes and moments, and what they read."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.units import (
    ago,
    duration,
    format_duration,
    format_limit,
    format_size,
    instant,
    memory,
    moment,
    rfc3339,
    size,
)

NOW = 1794774800.0  # 2026-11-15T20:33:20Z


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(*fields: int) -> float:
    return datetime(*fields, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("12h", 43200),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172800),
        ("1w", 604800),
        ("250ms", 0.25),
        ("1s500ms", 1.5),
        ("1.5h", 5400),
        ("10min", 600),
        ("10sec", 10),
        ("2H", 7200),
        ("90", 90),
        (" 90 ", 90),
        ("0", 0),
        (90, 90),
        (1.5, 1.5),
        ("100w", 60480000),
    ],
)
def test_durations_are_read(text, seconds):
    assert duration(text) == seconds
    assert isinstance(duration(text), float)


NO_DURATIONS = """
    h 1x -5 -5m 1h30 30m1h 1h1h 1e3 nan inf 1_000 ٣s 5000000000 101w9999999d 1,5h .. 1.s +5m
"""
NO_MOMENTS = """
    soon tomorrow + +soon -10m 24:00 12:60 2026 90 0 2026-13-01 2026-02-30 1969-12-31T00:00:00Z
    0001-01-01 9999-12-31T23:59:59Z 10000-01-01 2127-01-01 +101w999999d 1794774800000 nan inf
"""


@pytest.mark.parametrize(
    "text", [*NO_DURATIONS.split(), "", " ", math.nan, math.inf, -1, -0.5, True]
)
def test_what_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(BadInput, match="1h30m") as refusal:
        duration(text)
    assert str(text) in str(refusal.value)


def test_a_number_too_long_to_print_is_refused_all_the_same():
    for read in (duration, size, instant):
        with pytest.raises(BadInput):
            read(10**5000)


def test_a_refusal_does_not_repeat_a_whole_book():
    with pytest.raises(BadInput) as refusal:
        duration("x" * 100_000)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("100", 100),
        ("100B", 100),
        ("8G", 8 * 10**9),
        ("8g", 8 * 10**9),
        ("512M", 512 * 10**6),
        ("64K", 64_000),
        ("64KiB", 65536),
        ("64Ki", 65536),
        ("1.5GiB", 1610612736),
        ("1.5 GiB", 1610612736),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1kB", 1000),
        ("500MB", 500_000_000),
        ("8GB", 8_000_000_000),
        ("9007199254740993", 9007199254740993),
        (100, 100),
        ("0", 0),
    ],
)
def test_sizes_are_read(text, count):
    assert size(text) == count


@pytest.mark.parametrize(
    "text", ["", "G", "-1", "1X", "1e9", "nan", "1GG", "9999999P", True, 1.5, -1, "1" * 200, "1iB"]
)
def test_what_is_no_size_is_refused_with_examples(text):
    with pytest.raises(BadInput, match="512M, 8G"):
        size(text)


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("now", NOW),
        ("NOW", NOW),
        ("+10m", NOW + 600),
        ("+1h30m", NOW + 5400),
        ("+90", NOW + 90),
        ("2026-11-15T20:33:20Z", NOW),
        ("2026-11-15t20:33:20z", NOW),
        ("2026-11-15 20:33:20.5+00:00", NOW + 0.5),
        ("2026-11-15T21:33:20", NOW),
        ("2026-11-15T21:33:20+01:00", NOW),
        ("2026-11-15", utc(2026, 11, 14, 23)),
        ("20261115", utc(2026, 11, 14, 23)),
        ("2026-07-01 12:00", utc(2026, 7, 1, 10)),
        ("1794774800", NOW),
        ("1794774800.5", NOW + 0.5),
        (1794774800, NOW),
        (5.5, 5.5),
        ("22:00", utc(2026, 11, 15, 21)),
        ("21:33", utc(2026, 11, 16, 20, 33)),
        ("9:05", utc(2026, 11, 16, 8, 5)),
        ("21:33:21", NOW + 1),
    ],
)
@pytest.mark.usefixtures("berlin")
def test_moments_are_read(text, epoch):
    assert moment(text, NOW) == epoch
    assert isinstance(moment(text, NOW), float)


@pytest.mark.parametrize("text", [*NO_MOMENTS.split(), "", "9" * 400, math.nan, math.inf, -1, True])
@pytest.mark.usefixtures("berlin")
def test_what_is_no_moment_is_refused_with_examples(text):
    with pytest.raises(BadInput, match="for example") as refusal:
        moment(text, NOW)
    assert str(text).removeprefix("+")[:60] in str(refusal.value)


@pytest.mark.usefixtures("berlin")
def test_a_time_of_day_that_comes_twice_is_the_next_of_both():
    first, second = utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30)
    assert moment("02:30", first - 1) == first
    assert moment("02:30", first) == second
    assert moment("02:30", second) == utc(2026, 10, 26, 1, 30)


@pytest.mark.usefixtures("berlin")
def test_a_time_of_day_that_is_skipped_is_that_of_the_day_after():
    assert moment("02:30", utc(2026, 3, 29, 0)) == utc(2026, 3, 30, 0, 30)


def test_an_instant_needs_no_clock():
    assert instant("2026-11-15T20:33:20Z") == NOW
    assert instant("1794774800") == instant(1794774800) == NOW
    for text in ("now", "+10m", "20:33", "-5", -5, math.nan, True):
        with pytest.raises(BadInput):
            instant(text)


@given(st.text() | st.floats() | st.integers())
def test_reading_gives_a_value_or_a_refusal(text):
    for read in (duration, size, instant, lambda written: moment(written, NOW)):
        with suppress(BadInput):
            assert read(text) >= 0


@given(st.floats(0, units.CENTURY))
def test_a_formatted_duration_reads_as_about_the_same(seconds):
    assert duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.02, abs=0.0006)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0001, "0s"),
        (0.045, "45ms"),
        (0.9994, "999ms"),
        (0.9996, "1s"),
        (12, "12s"),
        (12.34, "12.3s"),
        (59.94, "59.9s"),
        (59.96, "1m 00s"),
        (303, "5m 03s"),
        (3599.6, "1h 00m"),
        (3720, "1h 02m"),
        (86399, "1d 0h"),
        (3 * 86400 + 4 * 3600, "3d 4h"),
        (400 * 86400, "400d 0h"),
        (-90, "-1m 30s"),
        (math.inf, "?"),
        (math.nan, "?"),
    ],
)
def test_durations_are_short_for_people(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (-0.5, "just now"),
        (12.9, "12s ago"),
        (59.9, "59s ago"),
        (60, "1m ago"),
        (7300, "2h ago"),
        (86400 * 4.5, "4d ago"),
        (-300, "in 5m"),
        (math.nan, "?"),
    ],
)
def test_how_long_ago_is_said_in_one_unit(seconds, text):
    assert ago(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1_000_000, "1 MB"),
        (1_400_000, "1.4 MB"),
        (9_960_000, "10 MB"),
        (23_400_000_000, "23 GB"),
        (999_600, "1 MB"),
        (1.2e15, "1.2 PB"),
        (5e18, "5000 PB"),
        (-1500, "-1.5 kB"),
        (math.inf, "?"),
    ],
)
def test_sizes_are_short_for_people(count, text):
    assert format_size(count) == text


@pytest.mark.parametrize("text", ["50 MB", "1 GB", "1.5 GB", "1 GiB", "512 MiB", "64 KiB", "8 GB"])
def test_a_limit_is_shown_as_it_was_written(text):
    assert format_limit(size(text)) == text


@pytest.mark.parametrize("text", ["8", "8 ", "1K", "100B"])
def test_so_little_memory_is_a_unit_that_was_forgotten(text):
    with pytest.raises(BadInput, match=r"bytes: (write 8G or 8M|that is too little)"):
        memory(text)
    assert (memory("8G"), memory("0"), memory(8), memory("1000000")) == (8 * 10**9, 0, 8, 10**6)


def test_times_are_rfc_3339_in_utc_to_the_millisecond():
    assert rfc3339(NOW + 0.123) == "2026-11-15T20:33:20.123Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("epoch", "text"),
    [
        (1e300, "9999-12-31T23:59:59.000Z"),
        (math.inf, "9999-12-31T23:59:59.000Z"),
        (-math.inf, "0001-01-01T00:00:00.000Z"),
        (math.nan, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_that_no_calendar_has_does_not_break_a_listing(epoch, text):
    assert rfc3339(epoch) == text


@given(st.floats(0, NOW + units.CENTURY))
def test_a_time_comes_back_to_the_millisecond(epoch):
    assert moment(rfc3339(epoch), NOW) == pytest.approx(epoch, abs=0.00101)
