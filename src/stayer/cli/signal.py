"""`signal`: send a signal to tasks."""

from __future__ import annotations

from msgspec.structs import replace

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, task_options
from stayer.cli.command import Given, command
from stayer.cli.selection import Selection
from stayer.core.errors import BadInput
from stayer.core.model import RUNNING, Task
from stayer.service.operator import operator_of


@command()
@task_options(metavar="[ID]... SIGNAL", help="Ids of tasks, then the signal: USR1, TERM or 15.")
def signal(given: Given, selection: Selection, manner: Manner) -> int:
    """Send a signal to the process of running tasks.

    Name tasks, or give a filter: then all running tasks that match get it. Only the main process of
    each does. If that ends by it, the task has failed, and runs again if it has retries left: to
    stop a task, cancel it.
    """
    if not selection.ids:
        raise BadInput("say which signal, behind the ids or the filter: USR1, TERM or 15")
    *ids, name = selection.ids
    verb = TaskVerb(
        name="signal",
        act=lambda store, id: operator_of(store).signal(id, name),
        describe=_describe,
        states=RUNNING,
    )
    return act_on_tasks(given, verb, replace(selection, ids=tuple(ids)), manner)


def _describe(task: Task) -> str:
    sent = [order.arguments["signal"] for order in task.orders if order.verb == "signal"]
    return f"{sent[-1]} is on its way" if sent else "got it"
