"""Lanes: what kind of handler a task needs, in one word, and whether a worker has it."""

from __future__ import annotations

from stayer.core import patterns
from stayer.core.model import EVERYTHING, Handles, Task


def lane_of(task: Task) -> str:
    """`command PROGRAM`, `name NAME`, or nothing for what needs neither."""
    if task.command:
        return f"command {task.command[0]}"
    return "" if task.name is None else f"name {task.name}"


def handled(lane: str, handles: Handles) -> bool:
    """Whether who can run these takes tasks from this lane."""
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
