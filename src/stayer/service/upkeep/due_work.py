"""What time brings: tasks become due or too old, schedules fire, what is finished is forgotten.

Any worker does it, and several may at once: each step is decided by the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from stayer.core.errors import BadInput, Refused, StoreUnreachable, UnknownTask
from stayer.core.model import FINISHED, Task
from stayer.core.queue_model import Kept
from stayer.core.schedules import cron
from stayer.core.schedules.model import Firing, Schedule
from stayer.service import sent_files
from stayer.service.control import tasks as control
from stayer.store import Store

logger = logging.getLogger("stayer.service.upkeep.due_work")

BATCH = 200
"""How many tasks become due at a time, so that others get their turn in between."""
SCHEDULES_BATCH = 20
"""How many schedules are seen to at a time."""
WAIT_FOR_CANCELLED_S = 1.0
"""When to look again at a schedule that waits for the end of what it has cancelled."""
_QUICK_S, _SLOW_S = 0.01, 0.05
_FIRST_BATCH, _LARGEST_BATCH = 10, 1000
"""How many are forgotten in a step: fewer if one is slow, more if it is quick."""


def elapse(store: Store, batch: int = BATCH) -> float | None:
    """Do some of what is due by now; when to come again (it may be at once), None if nothing will
    come.
    """
    following = store.promote(batch)
    if following is None or following > store.now():
        return following
    if not fire(store):
        return following
    return store.promote(0)


def fire(store: Store) -> list[str]:
    """See to the schedules that are due; their names. One that can't be understood here is left
    for a while. On a cluster one may not be reached while others are: raises StoreUnreachable then,
    after all others.
    """
    seen: list[str] = []
    unreached: StoreUnreachable | None = None
    for schedule in store.due_schedules(SCHEDULES_BATCH):
        seen.append(schedule.name)
        try:
            store.fire(_firing(store, schedule))
        except StoreUnreachable as error:
            unreached = error
        except BadInput as error:
            logger.error("schedule %s can't be used, trying again later: %s", schedule.name, error)
            # Soon enough for one who can use it: the tick is not missed yet.
            store.fire(_untouched(schedule, store.now() + cron.LATE / 2))
    if unreached is not None:
        raise unreached
    return seen


def _firing(store: Store, schedule: Schedule) -> Firing:
    """Plan what becomes of it. Nothing comes between this look and the deed: the store compares."""
    now = store.now()
    earlier = _unfinished(store, schedule) if schedule.overlap != "queue" else None
    plan = cron.plan(schedule, now, late=float("inf") if schedule.waiting else cron.LATE)
    if earlier is not None and schedule.overlap == "cancel" and plan.ticks:
        with suppress(Refused, UnknownTask):  # it has just ended
            control.cancel(store, earlier.id)
        return replace(_untouched(schedule, now + WAIT_FOR_CANCELLED_S), waiting=True)
    ticks = plan.ticks if earlier is None else ()
    return Firing(
        name=schedule.name,
        updated=schedule.updated,
        seen=schedule.last,
        last=plan.last,
        next=plan.next,
        tasks=tuple(cron.task_of(schedule, tick) for tick in ticks),
    )


def _unfinished(store: Store, schedule: Schedule) -> Task | None:
    """Find the newest task, unless it has ended: also if somebody has retried it since."""
    task = store.get([schedule.last_task])[0] if schedule.last_task else None
    if task is None or task.state in FINISHED:
        return None
    ended = any(event.event in FINISHED for event in store.events(task.id))
    return None if ended else task


def _untouched(schedule: Schedule, next: float) -> Firing:
    return Firing(
        name=schedule.name,
        updated=schedule.updated,
        seen=schedule.last,
        last=schedule.last,
        next=next,
        waiting=schedule.waiting,
    )


class Forgetting:
    """Forgets what has been kept for long enough, a little at a time: as much as takes a moment."""

    def __init__(self, retention: Mapping[Kept, float]) -> None:
        self._retention = retention
        self._batch = _FIRST_BATCH

    def step(self, store: Store) -> bool:
        """Forget some of it; whether there may be more."""
        began_at = time.monotonic()
        seen = store.forget(self._retention, self._batch)
        took = time.monotonic() - began_at
        if took > _SLOW_S:
            self._batch = max(_FIRST_BATCH // 2, self._batch // 2)
        elif took < _QUICK_S:
            self._batch = min(_LARGEST_BATCH, self._batch * 2)
        if seen == 0:
            sent_files.forget_unused(store)
        return seen > 0
