"""Which schedules an app may have, if a process of the tasks' user speaks for it.

Whoever has a process of that user could speak as well. So a schedule may do no more than that user
can: have functions of the app run, in queues whose tasks run as just that user here.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from stayer.core.errors import BadInput
from stayer.core.limits import quote
from stayer.core.schedules import parse
from stayer.core.schedules.model import Schedule, pack_task
from stayer.service.control import schedules
from stayer.store import Store
from stayer.worker.load_user_code import AppDescription

logger = logging.getLogger("stayer.worker")

_SCHEDULES_LIMIT = 500
"""How many schedules one app may declare: each may be a task a minute."""


def declare(
    store: Store,
    app: str,
    spoken: Mapping[str, tuple[AppDescription, Collection[str]]],
    usual: Mapping[str, Any],
) -> None:
    """Let the schedules of this app be what these users say, each for its queues; `usual` is for
    tasks that don't say it.
    """
    origin = f"app {app}"
    wanted = {
        user: _select_permitted(app, user, description, queues, usual)
        for user, (description, queues) in spoken.items()
    }
    # First of all users: a schedule may have moved to the queue of another one.
    for user, (_, queues) in spoken.items():
        schedules.withdraw(store, origin, wanted[user], within=queues)
    for user, (_, queues) in spoken.items():
        schedules.declare(store, origin, wanted[user], within=queues)


def _select_permitted(
    app: str,
    user: str,
    description: AppDescription,
    queues: Collection[str],
    usual: Mapping[str, Any],
) -> list[Schedule]:
    """Select those that may be declared."""
    found: dict[str, Schedule] = {}
    if len(description.schedules) > _SCHEDULES_LIMIT:
        logger.warning(
            "app %s, loaded by %s: only %d schedules are looked at", app, user, _SCHEDULES_LIMIT
        )
    for each in description.schedules[:_SCHEDULES_LIMIT]:
        try:
            schedule = parse.parse(each, "what it says", usual)
            pack_task(schedule.task)  # else the store refuses it, and all others with it
            why = _objection(schedule, user, description, queues, usual)
        except BadInput as error:
            why = str(error)
        if why is None:
            found[schedule.name] = schedule
        else:
            name = each.get("name")
            name = name if isinstance(name, str) and len(name) < 100 else quote(name)
            logger.warning("schedule %s of app %s is refused: %s", name, app, why)
    return list(found.values())


def _objection(
    schedule: Schedule,
    user: str,
    description: AppDescription,
    queues: Collection[str],
    usual: Mapping[str, Any],
) -> str | None:
    task = schedule.task
    if task.queue not in queues:
        return (
            f"this worker runs no tasks of queue {task.queue} as {user}, who declares it: that is "
            "for a worker of that queue"
        )
    if task.command is not None or task.name not in description.names:
        return f"with --task-user it can only run functions of the app ({_OTHER_WAYS_HINT})"
    if task.notify or task.owner not in (None, usual.get("owner")):
        what = "notify" if task.notify else "an owner"
        return f"with --task-user it can't say {what} ({_OTHER_WAYS_HINT})"
    return None


_OTHER_WAYS_HINT = "others are declared in stayer.toml, or with `stayer cron add`"
