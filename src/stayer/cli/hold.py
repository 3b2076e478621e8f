"""`hold`: keep tasks from being taken."""

from __future__ import annotations

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.selection import Selection
from stayer.core.model import QUEUED, RUNNING, Task
from stayer.service.operator import operator_of


@command()
@acts_on_tasks
def hold(given: Given, selection: Selection, manner: Manner) -> int:
    """Keep tasks from starting until they are released.

    Name tasks, or give a filter: then it holds all waiting, scheduled and pending tasks that match,
    unless --state says otherwise. Running tasks run on.
    """
    verb = TaskVerb(
        name="hold",
        act=lambda store, id: operator_of(store).hold(id),
        describe=_describe,
        states=QUEUED,
        held=False,
    )
    return act_on_tasks(given, verb, selection, manner)


def _describe(task: Task) -> str:
    return "runs on, and is held if it comes back" if task.state in RUNNING else "held"
