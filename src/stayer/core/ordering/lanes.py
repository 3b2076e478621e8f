"""Lanes: what kind of handler a task needs, in one word, and whether a worker has it."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core import patterns
from stayer.core.model import Task
from stayer.core.worker_model import EVERYTHING, Handles

TRACE = ("TRACEPARENT", "TRACESTATE")
"""What carries the context of a trace, as W3C names it."""


def lane_of(task: Task) -> str:
    """Name a task's lane: `command PROGRAM`, `name NAME`, or nothing for what needs neither."""
    if task.command:
        return f"command {task.command[0]}"
    return "" if task.name is None else f"name {task.name}"


def handles_lane(lane: str, handles: Handles) -> bool:
    """Return whether who can run these takes tasks from this lane."""
    if handles is EVERYTHING:
        return True
    form, _, word = lane.partition(" ")
    match form:
        case "name":
            return patterns.any_matches(word, handles.names)
        case "command":
            return patterns.any_matches(word, handles.programs, as_path=True)
        case _:
            return handles.plain


def takes(task: Task, handles: Handles) -> bool:
    """Return whether who can run these runs this task."""
    return handles_lane(lane_of(task), handles) and not find_refused_variables(
        task, handles.variables
    )


def find_refused_variables(task: Task, allowed: Sequence[str]) -> list[str]:
    """Return the variables that the task brings along and that these patterns don't allow. The
    context of a trace is always welcome: nothing runs by it.
    """
    return [
        name
        for name in task.env or ()
        if name not in TRACE and not patterns.any_matches(name, allowed)
    ]
