"""`pause`: stop tasks where they are, or queues."""

from __future__ import annotations

from stayer.cli.command import Given, command
from stayer.cli.queue_names import note_new_queues
from stayer.cli.tasks_or_queues import ask_tasks, is_about_tasks, switch_queues, tasks_or_queues
from stayer.service.control import tasks as control


@command()
@tasks_or_queues
def pause(given: Given, ids: tuple[str, ...], names: tuple[str, ...], as_json: bool) -> int:
    """Pause tasks where they are, or let no more tasks of a queue be taken.

    `stayer pause ID` stops all processes of a running task until it is resumed; its worker keeps
    the slot for it. `stayer pause -q QUEUE` lets running tasks go on.
    """
    if is_about_tasks(ids, names):
        return ask_tasks(given, ids, lambda by, id: by.pause(id), "asked to pause", as_json)
    note_new_queues(given.store(), names)  # so that it is paused before its first task comes
    return switch_queues(given, names, control.pause_queue, "paused", as_json)
