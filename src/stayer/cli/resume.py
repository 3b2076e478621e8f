"""`resume`: let what was paused go on."""

from __future__ import annotations

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.queue_names import check_queues
from stayer.cli.selection import Selection
from stayer.cli.tasks_or_queues import queues_meant, switch_queues
from stayer.core.model import RUNNING
from stayer.service.control import queues as queue_control
from stayer.service.operator import operator_of


@command()
@acts_on_tasks
def resume(given: Given, selection: Selection, manner: Manner) -> int:
    """Resume paused tasks, or a paused queue.

    With a filter it resumes all running tasks that match. `stayer resume -q QUEUE`, and nothing
    else, resumes the queue.
    """
    if names := queues_meant(selection):
        check_queues(given.store(), names)
        return switch_queues(given, names, queue_control.resume_queue, "resumed", manner.as_json)
    verb = TaskVerb(
        name="resume",
        act=lambda store, id: operator_of(store).resume(id),
        describe=lambda task: "asked to resume",
        states=RUNNING,
    )
    return act_on_tasks(given, verb, selection, manner)
