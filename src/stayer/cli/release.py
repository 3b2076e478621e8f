"""`release`: let held tasks be taken again."""

from __future__ import annotations

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.selection import Selection
from stayer.core.model import Task
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of
from stayer.store import Store


@command()
@acts_on_tasks
def release(given: Given, selection: Selection, manner: Manner) -> int:
    """Let held tasks start again.

    Name tasks, or give a filter: then it releases all held tasks that match.
    """
    free: set[str] = set()

    def act(store: Store, id: str) -> Task:
        if not control.get(store, id).held:
            free.add(id)
        return operator_of(store).release(id)

    verb = TaskVerb(
        name="release",
        act=act,
        describe=lambda task: "was not held" if task.id in free else "released",
        states=(),
        held=True,
    )
    return act_on_tasks(given, verb, selection, manner)
