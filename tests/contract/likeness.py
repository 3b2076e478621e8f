"""What must be alike in a store and in its model: all that the contract says, and no more."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from stayer.core.model import FINISHED, Task
from stayer.core.worker_model import Beat


def visible(task: Task) -> dict[str, Any]:
    """What the contract says of a task. How `returned_from` names a worker is not said."""
    fields = asdict(task)
    fields["returned_from"] = task.returned_from is not None
    if task.state not in FINISHED:
        del fields["ending"]  # of an attempt before: how long it is told is not said
    del fields["updated"]  # a report may be an update or not
    fields["progress"] = task.progress and task.progress.done
    fields["usage"] = task.usage and task.usage.ran
    return fields


def by_id(tasks: list[Task]) -> dict[str, dict[str, Any]]:
    return {task.id: visible(task) for task in tasks}


def beat_of(answer: Beat) -> tuple[float, list[Any], list[Any]]:
    return (
        answer.now,
        sorted((orders.id, orders.attempt, orders.orders) for orders in answer.orders),
        sorted((suspect.worker, suspect.number, suspect.lease) for suspect in answer.suspects),
    )
