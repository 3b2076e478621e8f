"""What the threads of a pool run: the functions of an app, by name, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stayer.core.model import Task
from stayer.core.ordering.lanes import find_refused_variables, handles_lane, lane_of
from stayer.core.refused_tasks import list_some, no_handler, other_queue
from stayer.core.worker_model import Handles


def handles_of(names: Iterable[str]) -> Handles:
    """Return what to reserve, by patterns of names. Threads share the environment of their process:
    no task can have its own.
    """
    return Handles(names=tuple(names), variables=(), threads=True)


def refusal(task: Task, handles: Handles, queues: Collection[str]) -> str | None:
    """Return why it can't run in a worker of these queues, whatever the store says."""
    if task.queue not in queues:
        return other_queue(task)
    if not handles_lane(lane_of(task), handles):
        return no_handler(task)
    if task.code is not None:
        return "it needs code to be installed, and threads share one process: see --allow-code"
    if refused := find_refused_variables(task, handles.variables):
        return (
            f"it brings along {list_some(refused)}, and threads have the variables of their process"
        )
    return None
