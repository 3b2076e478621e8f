"""What an operator does with schedules, one function each, the same for every door.

Declared ones belong to the file or app that declares them: it changes and removes them, and leaves
alone what somebody added by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from stayer.core import ids, units
from stayer.core.errors import Refused, UnknownSchedule
from stayer.core.model import Task
from stayer.core.schedules import cron, parse
from stayer.core.schedules.model import Schedule, explain_conflict
from stayer.store import AdminStore, ReadStore, Store

logger = logging.getLogger("stayer.service.control.schedules")

_RACE_TRIES = 20
"""How often somebody else may be faster."""


def get(store: ReadStore, name: str) -> Schedule:
    """Get the schedule of this name."""
    found = store.schedules([name])
    if not found:
        raise UnknownSchedule(
            f"no schedule {name!r} in {store.url}: `stayer cron ls` lists those there are"
        )
    return found[0]


def add(
    store: AdminStore, schedule: Schedule, *, replacing: bool = False, seen: str | None = None
) -> Schedule:
    """Make a schedule. The same once more is no error; another one of that name takes its place
    only if that is asked for, and with `seen` only if it shows this `updated`.
    """
    wanted = parse.check_schedule(schedule, store.now())
    there = store.schedules([schedule.name])
    if there and not replacing:
        if _is_same(there[0], wanted):
            return there[0]
        raise Refused(
            f"there is another schedule {schedule.name}: remove it first, or replace it (--replace)"
        )
    if seen is None:
        return store.put_schedule(wanted)
    if not there or units.rfc3339(there[0].updated) != seen:
        raise Refused(explain_conflict(schedule.name))
    return store.put_schedule(wanted, there[0].updated)


def change(store: AdminStore, name: str, **fields: Any) -> Schedule:
    """Decide some things about it otherwise, and leave the rest as whoever else decides it."""
    for _ in range(_RACE_TRIES):
        seen = get(store, name)
        wanted = parse.check_schedule(replace(seen, **fields), store.now())
        with suppress(Refused):  # somebody was faster
            return store.put_schedule(wanted, seen.updated)
    raise Refused(explain_conflict(name))


def pause(store: AdminStore, name: str) -> Schedule:
    """Let it tick no more until it is resumed. Twice is once."""
    schedule = get(store, name)
    return schedule if schedule.paused else change(store, name, paused=True)


def resume(store: AdminStore, name: str) -> Schedule:
    """Let it tick again, from now on: what came in the pause is left out. Twice is once."""
    schedule = get(store, name)
    return change(store, name, paused=False) if schedule.paused else schedule


def drop(store: AdminStore, name: str) -> None:
    """Forget it; its tasks stay."""
    get(store, name)
    store.drop_schedule(name)


def run(store: Store, name: str) -> Task:
    """Submit its task now, once, whatever else of it runs; the ticks know nothing of it."""
    task = replace(
        get(store, name).task,
        id=f"{name}@run-{ids.generate()}",
        generated=True,
        submitted_by=f"schedule {name}",
    )
    return store.submit([task])[0].task


def last_tasks(store: ReadStore, schedules: Sequence[Schedule]) -> dict[str, Task]:
    """Get the newest task of each, by the schedule's name; without those that are gone."""
    fired = [schedule for schedule in schedules if schedule.last_task is not None]
    tasks = store.get([schedule.last_task or "" for schedule in fired])
    pairs = zip(fired, tasks, strict=True)
    return {schedule.name: task for schedule, task in pairs if task is not None}


def next_ticks(store: ReadStore, schedule: Schedule, number: int) -> list[float]:
    """List its next ticks; none while it is paused."""
    return [] if schedule.paused else cron.next_ticks(schedule, store.now(), number)


def declare(
    store: AdminStore,
    origin: str,
    wanted: Sequence[Schedule],
    within: Collection[str] | None = None,
) -> None:
    """Let the schedules of this file or app be these: made, changed, removed as need be. `within`:
    whoever declares them is to be heard for these queues only, and takes nothing over from others.
    """
    for _ in range(_RACE_TRIES):
        with suppress(Refused):  # somebody was faster: look again
            return _declare(store, origin, wanted, within)
    raise Refused(f"the schedules of {origin} are changed all the time: try again")


def withdraw(
    store: AdminStore, origin: str, wanted: Sequence[Schedule], within: Collection[str] | None
) -> None:
    """Remove those of this file or app that are not among these; for `within` see `declare`."""
    declared = {schedule.name for schedule in wanted}
    for known in store.schedules():
        if _owns(origin, known, within) and known.name not in declared:
            store.drop_schedule(known.name)
            logger.info("schedule %s is gone: %s does not declare it any more", known.name, origin)


def _declare(
    store: AdminStore, origin: str, wanted: Sequence[Schedule], within: Collection[str] | None
) -> None:
    there = {schedule.name: schedule for schedule in store.schedules()}
    now = store.now()
    for written in wanted:
        schedule = replace(parse.check_schedule(written, now), origin=origin)
        known = there.get(schedule.name)
        if known is None:
            store.put_schedule(schedule)
        elif known.origin is None or (within is not None and not _owns(origin, known, within)):
            logger.warning(
                "schedule %s %s and is left as it is, though %s declares one: remove it with "
                "`stayer cron rm %s`",
                schedule.name, _describe_origin(known), origin, schedule.name,
            )  # fmt: skip
        elif not _is_same(known, schedule):
            # Whoever has paused it meant it.
            paused = schedule.paused or known.paused
            store.put_schedule(replace(schedule, paused=paused), known.updated)
        elif known.origin != origin:
            store.put_schedule(replace(known, origin=origin), known.updated)
    withdraw(store, origin, wanted, within)


def _owns(origin: str, known: Schedule, within: Collection[str] | None) -> bool:
    return known.origin == origin and (within is None or known.task.queue in within)


def _describe_origin(known: Schedule) -> str:
    if known.origin is None:
        return "was added by hand"
    return f"is one of {known.origin} in queue {known.task.queue}"


def _is_same(one: Schedule, other: Schedule) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in parse.DEFINITION)
