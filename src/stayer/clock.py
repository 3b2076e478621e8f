"""What time brings: tasks become due or too old, schedules fire, what is finished is forgotten.

Any worker does it, and several may at once: each step is decided by the store.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from stayer import control
from stayer.core import cron
from stayer.core.errors import Refused, UnknownTask
from stayer.core.lifecycle import Expire, decide
from stayer.core.model import FINISHED, NewTask, Schedule, State
from stayer.store import Store

BATCH = 1000
RETENTION: dict[State, float] = {
    "complete": 30 * 86400.0,
    "failed": 90 * 86400.0,
    "cancelled": 30 * 86400.0,
}
"""How long finished tasks are kept, in seconds, unless their queue says otherwise."""


def elapse(store: Store) -> float | None:
    """Do what is due by now; when to come again (it may be at once), None if nothing will come."""
    following = store.promote(BATCH)
    if following is None or following > store.now():
        return following
    expire(store)
    fire(store)
    return store.promote(BATCH)


def expire(store: Store) -> int:
    """End the tasks that nobody has started in time; how many this call did."""
    changes = [decide(task, Expire()) for task in store.expired(BATCH)]
    return sum(applied is not None for applied in store.commit(changes)) if changes else 0


def fire(store: Store) -> list[str]:
    """Submit what schedules want by now; the ids."""
    now = store.now()
    due = [
        schedule
        for schedule in store.schedules()
        if not schedule.paused and schedule.next is not None and schedule.next <= now
    ]
    return [id for schedule in due for id in _fire(store, schedule, now)]


def _fire(store: Store, schedule: Schedule, now: float) -> list[str]:
    """The tasks first: should we die before the schedule knows, their ids keep them from coming
    twice.
    """
    plan = cron.plan(schedule, now)
    tasks = _allowed(store, schedule, [_task(schedule, tick) for tick in plan.ticks])
    newest = tasks[-1].id if tasks else None
    if tasks:
        store.submit(tasks)
    if not store.advance_schedule(schedule.name, schedule.last, plan.last, plan.next, newest):
        _remember(store, schedule.name, newest)
    return [task.id for task in tasks]


def _task(schedule: Schedule, tick: float) -> NewTask:
    eta = cron.starts_at(schedule, tick) if schedule.jitter else None
    return replace(schedule.task, id=cron.task_id(schedule.name, tick), eta=eta, generated=False)


def _allowed(store: Store, schedule: Schedule, tasks: list[NewTask]) -> list[NewTask]:
    """What its policy for overlaps leaves of them."""
    if not tasks or schedule.overlap == "queue":
        return tasks
    earlier = store.get([schedule.last_task])[0] if schedule.last_task else None
    goes_on = earlier is not None and earlier.state not in FINISHED and earlier.id != tasks[0].id
    if schedule.overlap == "skip":
        return [] if goes_on else tasks[:1]
    if goes_on and earlier is not None:
        with suppress(Refused, UnknownTask):  # it has just ended
            control.cancel(store, earlier.id)
    return tasks[-1:]


def _remember(store: Store, name: str, task: str | None) -> None:
    """Somebody else saw to the same tick, and may not have known of this task."""
    while task is not None:
        found = store.schedules([name])
        # Ids of a schedule's tasks are in the order of their ticks.
        if not found or (found[0].last_task or "") >= task:
            return
        current = found[0]
        if store.advance_schedule(name, current.last, current.last, current.next, task):
            return


def forget_old(store: Store, most: int = BATCH) -> int:
    """Purge what has been finished for long enough, in small batches; how many tasks that was."""
    now, forgotten = store.now(), 0
    for queue in store.queues():
        for state, usual in RETENTION.items():
            kept = queue.retention.get(state, usual)
            while forgotten < most:
                purged = store.purge_queue(queue.name, state, now - kept, control.BATCH)
                forgotten += purged
                if purged < control.BATCH:
                    break
    return forgotten
