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
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.errors import BadInput
from stayer.core.model import NewTask
from stayer.core.schedule import Schedule

_DAY = 86400.0
_BACK = (3600.0, _DAY, 40 * _DAY, 400 * _DAY, 3700 * _DAY)
_NEAR = 4 * 3600.0
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
    """The ticks that are due, by the schedule's policy for those that were missed: `late` seconds
    old, or more.

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
    """The first tick after a moment."""
    return next(_ticks(schedule.cron, schedule.zone, after), None)


def following(schedule: Schedule, after: float, number: int) -> list[float]:
    """The next so many."""
    return list(islice(_ticks(schedule.cron, schedule.zone, after), number))


def starts_at(schedule: Schedule, tick: float) -> float:
    """When the task of a tick is due: spread over the jitter, always the same for the same tick."""
    chance = zlib.crc32(f"{schedule.name} {tick}".encode()) / 2**32
    return tick + schedule.jitter * chance


def task_id(name: str, tick: float) -> str:
    """The id of a tick's task: the same whoever fires it."""
    return f"{name}@{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}"


def task_of(schedule: Schedule, tick: float) -> NewTask:
    """The task of a tick."""
    eta = starts_at(schedule, tick) if schedule.jitter else None
    return replace(schedule.task, id=task_id(schedule.name, tick), eta=eta)


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

    written = _ALIASES.get(expression.strip().lower(), expression)
    try:
        if len(written.split()) != 5:
            raise CronSimError("wrong number of fields")
        times = CronSim(written, _anchor(after, _place(zone)))
    except CronSimError as error:
        raise BadInput(
            f"cron expression {expression!r}: {str(error).lower()}: write five fields, minute hour "
            "day month weekday, for example '30 2 * * *', or @hourly, @daily, @weekly, @monthly"
        ) from None
    for moment in times:
        tick = moment.timestamp()
        if tick > after:
            yield tick


def _place(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise BadInput(
            f"time zone {zone!r} is not known here: write for example UTC or Europe/Berlin"
        ) from None


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
