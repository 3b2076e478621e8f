"""What `complete` and `fail` share: a person says how tasks ended."""

from __future__ import annotations

from collections.abc import Callable

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks
from stayer.cli.command import Given
from stayer.cli.selection import Selection
from stayer.core.model import QUEUED, RUNNING, Task
from stayer.service.control import tasks as control
from stayer.service.control import waits
from stayer.service.operator import operator_of
from stayer.store import Store

STOP_HELP = "If it runs, cancel it first and wait until it has ended."


def end_by_hand(
    given: Given,
    name: str,
    act: Callable[[Store, str], Task],
    selection: Selection,
    manner: Manner,
    *,
    stop: bool,
) -> int:
    """Say how the selected tasks ended; with `stop`, also of those that run, once they are gone."""

    def stop_and_act(store: Store, id: str) -> Task:
        if stop and control.get(store, id).state in RUNNING:
            operator_of(store).cancel(id)
            for _ in waits.wait(store, [id]):
                pass
        return act(store, id)

    verb = TaskVerb(
        name=name, act=stop_and_act, describe=lambda task: task.state, states=QUEUED, together=True
    )
    return act_on_tasks(given, verb, selection, manner)
