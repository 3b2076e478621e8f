"""`pause`: stop tasks where they are, or queues."""

from __future__ import annotations

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.queue_names import note_new_queues
from stayer.cli.selection import Selection
from stayer.cli.tasks_or_queues import queues_meant, switch_queues
from stayer.core.model import RUNNING
from stayer.service.control import queues as queue_control
from stayer.service.operator import operator_of


@command()
@acts_on_tasks
def pause(given: Given, selection: Selection, manner: Manner) -> int:
    """Pause running tasks, or a queue.

    `stayer pause ID` stops all processes of a running task until it is resumed; its worker keeps
    the slot for it. With a filter it pauses all running tasks that match. `stayer pause -q QUEUE`,
    and nothing else, pauses the queue: running tasks go on, and no more start.
    """
    if names := queues_meant(selection):
        note_new_queues(given.store(), names)  # so that it is paused before its first task comes
        return switch_queues(given, names, queue_control.pause_queue, "paused", manner.as_json)
    verb = TaskVerb(
        name="pause",
        act=lambda store, id: operator_of(store).pause(id),
        describe=lambda task: "asked to pause",
        states=RUNNING,
    )
    return act_on_tasks(given, verb, selection, manner)
