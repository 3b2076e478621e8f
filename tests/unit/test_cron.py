"""When schedules tick: against a plain clock that looks at every minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stayer.core.errors import BadInput
from stayer.core.model import NewTask
from stayer.core.schedules import cron
from stayer.core.schedules.model import CatchUp, Overlap, Schedule


def schedule(
    expression: str = "*/5 * * * *",
    zone: str = "UTC",
    *,
    last: float | None = 0.0,
    catch_up: CatchUp = "last",
    overlap: Overlap = "skip",
    **fields: float,
) -> Schedule:
    return Schedule(
        name="s", cron=expression, zone=zone, last=last, catch_up=catch_up, overlap=overlap,
        task=NewTask(id="", queue="q"), **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def at(text: str, zone: str = "UTC", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def ticks(expression: str, zone: str, begin: float, end: float) -> list[float]:
    """Each found from the one before, as workers do."""
    found: list[float] = []
    following = cron.next_tick(schedule(expression, zone), begin)
    while following is not None and following <= end:
        found.append(following)
        following = cron.next_tick(schedule(expression, zone), following)
    return found


# A model: what the fields say, looked up minute by minute of the wall clock


def named(minutes: set[int], hours: set[int], wall: datetime) -> bool:
    return wall.minute in minutes and wall.hour in hours


def by_time_that_passes(
    minutes: set[int], hours: set[int], zone: str, begin: float, end: float
) -> list[float]:
    """Every real minute whose wall clock matches."""
    place, found, moment = ZoneInfo(zone), [], begin - begin % 60 + 60
    while moment <= end:
        if named(minutes, hours, datetime.fromtimestamp(moment, place)):
            found.append(moment)
        moment += 60
    return found


def by_the_calendar(
    minutes: set[int], hours: set[int], zone: str, begin: float, end: float
) -> list[float]:
    """Every minute of the calendar that matches, once: what is left out comes after the gap."""
    place = ZoneInfo(zone)
    wall = datetime.fromtimestamp(begin, place).replace(tzinfo=None, second=0, fold=0)
    wall -= timedelta(days=1)
    found: set[float] = set()
    while wall <= datetime.fromtimestamp(end, place).replace(tzinfo=None) + timedelta(days=1):
        if named(minutes, hours, wall):
            found.add(_first_real(wall, place))
        wall += timedelta(minutes=1)
    return sorted(moment for moment in found if begin < moment <= end)


def _first_real(wall: datetime, place: ZoneInfo) -> float:
    while True:
        moment = wall.replace(tzinfo=place).timestamp()
        if datetime.fromtimestamp(moment, place).replace(tzinfo=None, fold=0) == wall:
            return moment
        wall += timedelta(minutes=1)  # in the gap


CHANGES = [
    ("Europe/Berlin", "2025-03-30T00:00"), ("Europe/Berlin", "2025-10-26T00:00"),
    ("America/New_York", "2025-03-09T00:00"), ("America/New_York", "2025-11-02T00:00"),
    ("Australia/Lord_Howe", "2025-04-06T00:00"), ("Australia/Lord_Howe", "2025-10-05T00:00"),
    ("Asia/Kolkata", "2025-06-01T00:00"), ("UTC", "2025-03-30T00:00"),
]  # fmt: skip

some_minutes = st.sets(st.sampled_from([0, 1, 15, 29, 30, 31, 45, 59]), min_size=1, max_size=3)
some_hours = st.sets(st.integers(0, 4), min_size=1, max_size=3)


def joined(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CHANGES), some_minutes, some_hours, st.integers(0, 6 * 3600))
def test_named_times_come_once_each(
    change: tuple[str, str], minutes: set[int], hours: set[int], late: int
) -> None:
    zone, day = change
    begin = at(day, zone) + late
    end = begin + 30 * 3600
    found = ticks(f"{joined(minutes)} {joined(hours)} * * *", zone, begin, end)
    assert found == by_the_calendar(minutes, hours, zone, begin, end)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CHANGES), some_minutes, st.integers(0, 6 * 3600))
def test_with_any_hour_it_goes_by_time_that_passes(
    change: tuple[str, str], minutes: set[int], late: int
) -> None:
    zone, day = change
    begin = at(day, zone) + late
    end = begin + 8 * 3600
    found = ticks(f"{joined(minutes)} * * * *", zone, begin, end)
    assert found == by_time_that_passes(minutes, set(range(24)), zone, begin, end)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(CHANGES),
    st.sampled_from(["30 2 * * *", "*/20 * * * *", "15 1,2,3 * * *", "0 */2 * * *", "45 1 * * 0"]),
    st.floats(0, 40 * 3600),
)
def test_the_ticks_are_the_same_wherever_one_begins_to_look(
    change: tuple[str, str], expression: str, offset: float
) -> None:
    zone, day = change
    begin = at(day, zone) - 4 * 3600
    whole = ticks(expression, zone, begin, begin + 50 * 3600)
    later = begin + offset
    assert ticks(expression, zone, later, begin + 50 * 3600) == [t for t in whole if t > later]


def test_a_time_that_is_left_out_comes_right_after_the_gap() -> None:
    found = cron.next_tick(schedule("30 2 * * *", "Europe/Berlin"), at("2025-03-30T00:00"))
    assert found == at("2025-03-30T03:00", "Europe/Berlin")


def test_a_time_that_comes_twice_is_the_first_one() -> None:
    begin = at("2025-10-26T00:00", "Europe/Berlin")
    found = ticks("30 2 * * *", "Europe/Berlin", begin, begin + 36 * 3600)
    assert found == [
        at("2025-10-26T02:30", "Europe/Berlin"), at("2025-10-27T02:30", "Europe/Berlin"),
    ]  # fmt: skip


def test_an_hour_that_comes_twice_has_its_ticks_twice() -> None:
    begin = at("2025-10-26T01:59", "Europe/Berlin")
    found = ticks("0,30 * * * *", "Europe/Berlin", begin, begin + 2.5 * 3600)
    assert [datetime.fromtimestamp(tick, UTC).strftime("%H:%M") for tick in found] == [
        "00:00", "00:30", "01:00", "01:30", "02:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("alias", "same"),
    [("@hourly", "0 * * * *"), ("@Daily", "0 0 * * *"), ("@weekly", "0 0 * * 0"),
     ("@monthly", "0 0 1 * *"), ("@yearly", "0 0 1 1 *")],
)  # fmt: skip
def test_short_words_for_usual_times(alias: str, same: str) -> None:
    begin = at("2025-05-05T05:05")
    assert cron.next_tick(schedule(alias), begin) == cron.next_tick(schedule(same), begin)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * *", "61 * * * *", "* 24 * * *", "* * 32 * *", "* * * 13 *",
     "* * * * 9", "a * * * *", "*/0 * * * *", "5-1 * * * *", "@never", "0 0 31 2 *"],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_what_to_write(expression: str) -> None:
    with pytest.raises(BadInput, match=r"cron expression .*(write five fields|never comes)"):
        cron.check(expression, "UTC")


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "Europe", "CET\0"])
def test_a_zone_that_is_not_there_is_refused(zone: str) -> None:
    with pytest.raises(BadInput, match="time zone"):
        cron.check("* * * * *", zone)


# Plans


MINUTE = 60.0
TEN = [at("2025-05-05T10:00") + 300 * number for number in range(11)]
"""The first is the last one that was seen to."""


def plan(now: float, **fields: object) -> cron.Plan:
    return cron.plan(schedule(last=TEN[0], **fields), now)  # type: ignore[arg-type]


def test_a_tick_that_is_due_is_fired() -> None:
    assert plan(TEN[1]) == cron.Plan((TEN[1],), TEN[1], TEN[2])
    assert plan(TEN[1] - 1) == cron.Plan((), TEN[0], TEN[1])


def test_of_missed_ticks_the_last_one_is_made_up_for() -> None:
    assert plan(TEN[5] + 200) == cron.Plan((TEN[5],), TEN[5], TEN[6])


def test_or_none() -> None:
    assert plan(TEN[5] + 200, catch_up="none") == cron.Plan((), TEN[5], TEN[6])
    assert plan(TEN[5] + 20, catch_up="none") == cron.Plan((TEN[5],), TEN[5], TEN[6])


def test_or_all_where_they_may_stand_in_line() -> None:
    everything = plan(TEN[5] + 200, catch_up="all", overlap="queue")
    assert everything == cron.Plan(tuple(TEN[1:6]), TEN[5], TEN[6])
    assert plan(TEN[5] + 200, catch_up="all", overlap="skip").ticks == (TEN[5],)


def test_very_many_are_made_up_for_in_parts() -> None:
    first = plan(TEN[0] + 300 * 2.5 * cron.MOST, catch_up="all", overlap="queue")
    assert len(first.ticks) == cron.MOST
    assert first.next == first.ticks[-1] + 300


def test_years_of_them_cost_nothing() -> None:
    """That is: no more ticks are looked at than those of the last hour."""
    late = plan(at("2035-05-05T10:02"))
    assert late.ticks == (at("2035-05-05T10:00"),)


def test_a_schedule_that_was_never_fired_begins_when_it_was_made() -> None:
    made = schedule(last=None, created=TEN[3] + 1)
    assert cron.plan(made, TEN[3] + 2).ticks == ()
    assert cron.plan(made, TEN[4]).ticks == (TEN[4],)


def test_jitter_is_spread_and_always_the_same() -> None:
    one = schedule(jitter=60.0)
    starts = [cron.starts_at(one, tick) - tick for tick in TEN]
    assert all(0 <= late < 60 for late in starts)
    assert len(set(starts)) == len(TEN)
    assert starts == [cron.starts_at(one, tick) - tick for tick in TEN]


def test_ids_tell_schedule_and_tick() -> None:
    assert cron.task_id("nightly", at("2025-05-05T10:05")) == "nightly@2025-05-05T10:05:00Z"
