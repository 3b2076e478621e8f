"""Putting into the store what stayer.toml and an app declare: schedules, and limits of queues."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from stayer.config import Config
    from stayer.store import Store
    from stayer.worker.handlers import Handlers


def declare_schedules(config: Config, store: Store) -> None:
    """Make the schedules in the store those that the file declares."""
    from stayer.core.schedules import parse
    from stayer.service.control import schedules

    if config.file is not None:
        folder = os.path.dirname(config.file)
        found = [
            parse.parse(each, f"{config.file}: [[cron]] {number}", _task_defaults(config), folder)
            for number, each in enumerate(config.cron, start=1)
        ]
        schedules.declare(store, config.file, found)


def declare_app(config: Config, handlers: Handlers, store: Store, queues: Collection[str]) -> None:
    """Make the app's schedules in the store those that it declares, if it could be loaded."""
    from stayer.core.schedules import parse
    from stayer.service.control import schedules
    from stayer.worker import app_schedules

    if handlers.app is None:
        return
    usual = _task_defaults(config)
    users = handlers.users.all()
    if users:
        spoken = {
            user.name: (
                description,
                [queue for queue in queues if handlers.users.of(queue) == user],
            )
            for user in users
            if (description := handlers.app_descriptions.get(user.name)) is not None
        }
        app_schedules.declare(store, handlers.app, spoken, usual)
    else:
        description = handlers.app_descriptions[None]
        declared = [parse.parse(each, handlers.app, usual) for each in description.schedules]
        schedules.declare(store, f"app {handlers.app}", declared)


def _task_defaults(config: Config) -> dict[str, Any]:
    """Return the defaults for tasks of schedules."""
    return {"queue": config.queue, "owner": config.owner, "retries": config.retries}


def declare_queues(config: Config, store: Store) -> None:
    """Set the queues as the file says."""
    from stayer.core.queue_settings import WrittenSettings
    from stayer.service.control import queues as queue_control

    for name, settings in config.queues.items():
        queue_control.set_queue(store, name, **cast(WrittenSettings, settings))
