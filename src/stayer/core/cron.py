"""When a schedule is due, and what follows from that. Pure: the caller says what time it is.

The clock of a schedule is that of its time zone. When clocks go back, a time that comes twice is
one tick; when they go forward, a tick in the hour that is left out comes right after it.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from msgspec import Struct

from stayer.core.errors import BadInput
from stayer.core.model import Schedule

_DAY = 86400.0
_BACK = (3600.0, _DAY, 40 * _DAY, 400 * _DAY, 3700 * _DAY)
_NEAR = 4 * 3600.0
LATE = 60.0
"""A tick that is older than this when somebody looks was missed."""
MOST = 1000
"""How many ticks are made up for at a time."""


class Plan(Struct, frozen=True):
    """What to do about a schedule now."""

    ticks: tuple[float, ...]
    """Those to fire."""
    last: float | None
    """The last that needs no more thought."""
    next: float | None
    """When to look again; None: never, there is no further tick."""


def plan(schedule: Schedule, now: float) -> Plan:
    """The ticks that are due, by the schedule's policy for those that were missed."""
    begin = schedule.last if schedule.last is not None else schedule.created
    find = _all_due if schedule.catch_up == "all" else _newest
    due = find(schedule, begin, now)
    last = due[-1] if due else schedule.last
    if schedule.paused:
        wanted = []
    elif schedule.catch_up == "none":
        wanted = [tick for tick in due if tick > now - LATE]
    else:
        wanted = due
    return Plan(tuple(wanted), last, next_tick(schedule, last if last is not None else begin))


def next_tick(schedule: Schedule, after: float) -> float | None:
    """The first tick after a moment."""
    return next(_ticks(schedule.cron, schedule.zone, after), None)


def following(schedule: Schedule, after: float, number: int) -> list[float]:
    """The next so many."""
    return [tick for tick, _ in zip(_ticks(schedule.cron, schedule.zone, after), range(number))]  # noqa: B905


def starts_at(schedule: Schedule, tick: float) -> float:
    """When the task of a tick is due: spread over the jitter, always the same for the same tick."""
    chance = zlib.crc32(f"{schedule.name} {tick}".encode()) / 2**32
    return tick + schedule.jitter * chance


def task_id(name: str, tick: float) -> str:
    """The id of a tick's task: the same whoever fires it."""
    return f"{name}@{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}"


def check(expression: str, zone: str) -> None:
    """BadInput that says what is wrong with it."""
    if next(_ticks(expression, zone, 0.0), None) is None:
        raise BadInput(f"cron expression {expression!r} never comes: mend it")


def _all_due(schedule: Schedule, after: float, now: float) -> list[float]:
    """The first ones of all that are due; the rest at the next look."""
    ticks = _ticks(schedule.cron, schedule.zone, after)
    return list(takewhile(lambda tick: tick <= now, islice(ticks, MOST)))


def _newest(schedule: Schedule, after: float, now: float) -> list[float]:
    """The last one that is due, found without going through years of them."""
    for back in _BACK:
        since = max(after, now - back)
        ticks = _ticks(schedule.cron, schedule.zone, since)
        due = deque(takewhile(lambda tick: tick <= now, ticks), maxlen=1)
        if due or since == after:
            return list(due)
    return []


def _ticks(expression: str, zone: str, after: float) -> Iterator[float]:
    from cronsim import CronSim, CronSimError

    try:
        place = ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise BadInput(
            f"time zone {zone!r} is not known here: write for example UTC or Europe/Berlin"
        ) from None
    try:
        times = CronSim(expression, _anchor(after, place))
    except CronSimError as error:
        raise BadInput(
            f"cron expression {expression!r}: {str(error).lower()}: write five fields, minute hour "
            "day month weekday, for example '30 2 * * *'"
        ) from None
    for moment in times:
        tick = moment.timestamp()
        if tick > after:
            yield tick


def _anchor(after: float, place: ZoneInfo) -> datetime:
    """Where to begin to count: the same ticks must be found wherever one begins, and in the hour
    that clocks set back repeat, beginning in its second half would find one that was there already.
    """
    here = datetime.fromtimestamp(after, UTC).astimezone(place)
    around = (here - timedelta(seconds=_NEAR), here + timedelta(seconds=_NEAR))
    before, behind = (moment.astimezone(UTC).astimezone(place).utcoffset() for moment in around)
    if before == behind == here.utcoffset():
        return here
    return (here - timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0, fold=0)
