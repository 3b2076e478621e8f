"""`resume`: let what was paused go on."""

from __future__ import annotations

from stayer.cli.command import Given, command
from stayer.cli.queue_names import check_queues
from stayer.cli.tasks_or_queues import ask_tasks, is_about_tasks, switch_queues, tasks_or_queues
from stayer.service.control import tasks as control


@command()
@tasks_or_queues
def resume(given: Given, ids: tuple[str, ...], names: tuple[str, ...], as_json: bool) -> int:
    """Resume paused tasks, or let tasks of a paused queue be taken again."""
    if is_about_tasks(ids, names):
        return ask_tasks(given, ids, lambda by, id: by.resume(id), "asked to resume", as_json)
    check_queues(given.store(), names)
    return switch_queues(given, names, control.resume_queue, "resumed", as_json)
