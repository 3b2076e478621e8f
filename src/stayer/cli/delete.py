"""`delete`: forget finished tasks."""

from __future__ import annotations

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.selection import Selection
from stayer.core.model import FINISHED, Task
from stayer.service.control import tasks as control
from stayer.store import Store


@command()
@acts_on_tasks
def delete(given: Given, selection: Selection, manner: Manner) -> int:
    """Delete finished tasks.

    With their results, logs and checkpoints. Name tasks, or give a filter: then it deletes all
    finished tasks that match, unless --state says otherwise. Their ids stay refused for 30 days.
    `stayer purge` forgets by age.
    """
    verb = TaskVerb(name="delete", act=_delete, describe=lambda task: "deleted", states=FINISHED)
    return act_on_tasks(given, verb, selection, manner)


def _delete(store: Store, id: str) -> Task:
    task = control.get(store, id)
    control.delete(store, id)
    return task
