"""When a schedule is due, and what follows from that. Pure: the caller says what time it is.

A tick is a moment of the schedule's time zone. Where clocks are set, it is as in Debian's cron. A
schedule that names minute and hour has one tick for each time it names: of a time that comes twice
the first, and instead of a time that is left out the first moment after the gap. A schedule with
`*` as its minute or hour goes by time that passes: the hour that comes twice has its ticks twice,
the hour that is left out has none.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct
from msgspec.structs import replace

from stayer.core.errors import BadInput
from stayer.core.limits import UNIT, check_length
from stayer.core.model import NewTask
from stayer.core.schedules.model import Schedule

_DAY = 86400.0
_BACK = (3600.0, _DAY, 40 * _DAY, 400 * _DAY, 3700 * _DAY)
LATE = 60.0
"""A tick that is older than this when somebody looks was missed."""
MOST = 100
"""How many ticks are made up for at a time."""
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Plan(Struct, frozen=True):
    """What to do about a schedule now."""

    ticks: tuple[float, ...]
    """Those to fire."""
    last: float | None
    """The last that needs no more thought."""
    next: float | None
    """When to look again; None: never, there is no further tick."""


def plan(schedule: Schedule, now: float, late: float = LATE) -> Plan:
    """Return the ticks that are due, by the schedule's policy for those that were missed: `late`
    seconds old, or more.

    Only where tasks may stand in line can several be made up for: else it is the newest.
    """
    begin = schedule.last if schedule.last is not None else schedule.created
    each = schedule.catch_up == "all" and schedule.overlap == "queue"
    due = _all_due(schedule, begin, now) if each else _newest(schedule, begin, now)
    last = due[-1] if due else schedule.last
    wanted = due
    if schedule.catch_up == "none":
        wanted = [tick for tick in due if tick > now - late]
    return Plan(tuple(wanted), last, next_tick(schedule, last if last is not None else begin))


def next_tick(schedule: Schedule, after: float) -> float | None:
    """Return the first tick after a moment."""
    return next(_ticks(schedule.cron, schedule.zone, after), None)


def next_ticks(schedule: Schedule, after: float, number: int) -> list[float]:
    """Return the next so many ticks."""
    return list(islice(_ticks(schedule.cron, schedule.zone, after), number))


def starts_at(schedule: Schedule, tick: float) -> float:
    """Return when the task of a tick is due: spread over the jitter, always the same for the same
    tick.
    """
    chance = zlib.crc32(f"{schedule.name} {tick}".encode()) / 2**32
    return tick + schedule.jitter * chance


def task_id(name: str, tick: float) -> str:
    """Return the id of a tick's task: the same whoever fires it."""
    return f"{name}@{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}"


def task_of(schedule: Schedule, tick: float) -> NewTask:
    """Make the task of a tick. It expires so long after it was due, however late it is
    submitted.
    """
    due = starts_at(schedule, tick)
    expire = schedule.task.expire
    return replace(
        schedule.task,
        id=task_id(schedule.name, tick),
        eta=due if schedule.jitter else None,
        expire=None,
        start_before=None if expire is None else due + expire,
        submitted_by=f"schedule {schedule.name}",
    )


def check(expression: str, zone: str) -> None:
    """BadInput that says what is wrong with it."""
    check_length("cron expression", expression, UNIT)
    check_length("time zone", zone, UNIT)
    if next(_ticks(expression, zone, 0.0), None) is None:
        raise BadInput(f"cron expression {expression!r} never comes: fix it")


def _all_due(schedule: Schedule, after: float, now: float) -> list[float]:
    """Return the first ones of all that are due; the rest at the next look."""
    ticks = _ticks(schedule.cron, schedule.zone, after)
    return list(takewhile(lambda tick: tick <= now, islice(ticks, MOST)))


def _newest(schedule: Schedule, after: float, now: float) -> list[float]:
    """Return the last one that is due, found without going through years of them."""
    for back in _BACK:
        since = max(after, now - back)
        ticks = _ticks(schedule.cron, schedule.zone, since)
        due = deque(takewhile(lambda tick: tick <= now, ticks), maxlen=1)
        if due or since == after:
            return list(due)
    return []


def _ticks(expression: str, zone: str, after: float) -> Iterator[float]:
    written = _ALIASES.get(expression.strip().lower(), expression)
    place = _place(zone)
    fields = written.split()
    try:
        if len(fields) != 5:
            raise CronSimError("wrong number of fields")
        passing = any(field.startswith("*") for field in fields[:2])
        times = _ticks_by_interval if passing else _on_calendar
        yield from times(written, place, after)
    except CronSimError as error:
        raise BadInput(
            f"cron expression {expression!r}: {str(error).lower()}: write five fields, minute hour "
            "day month weekday, for example '30 2 * * *', or @hourly, @daily, @weekly, @monthly"
        ) from None


def _on_calendar(expression: str, place: ZoneInfo, after: float) -> Iterator[float]:
    """Times that are named: a day of the calendar has each of them once."""
    # The day before, so that the ticks are the same wherever one begins to look.
    begin = datetime.fromtimestamp(after, UTC).astimezone(place) - timedelta(days=1)
    for moment in CronSim(expression, begin):
        tick = moment.timestamp()
        if tick > after:
            yield tick


def _ticks_by_interval(expression: str, place: ZoneInfo, after: float) -> Iterator[float]:
    """Ticks by time that passes: with the clock as it stands, until it is set."""
    begin: float | None = after
    while begin is not None:
        offset, last = _offset(begin, place), begin
        times = CronSim(expression, datetime.fromtimestamp(begin - 1, timezone(offset)))
        begin = None
        for tick in (moment.timestamp() for moment in times):
            if tick > last and _offset(tick, place) != offset:
                begin = _change(last, tick, place)
                break
            if tick > after and tick >= last:
                yield tick
            last = max(last, tick)


def _offset(moment: float, place: ZoneInfo) -> timedelta:
    found = datetime.fromtimestamp(moment, place).utcoffset()
    assert found is not None
    return found


def _change(before: float, behind: float, place: ZoneInfo) -> float:
    """Return the first moment between two at which the clock is another: a whole second."""
    offset, low, high = _offset(before, place), int(before), int(behind)
    later = low
    while _offset(later, place) == offset:  # a day at a time: it may change back
        low, later = later, min(later + int(_DAY), high)
    while later - low > 1:
        middle = (low + later) // 2
        if _offset(middle, place) == offset:
            low = middle
        else:
            later = middle
    return float(later)


def _place(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise BadInput(
            f"time zone {zone!r} is not known here: write for example UTC or Europe/Berlin"
        ) from None
