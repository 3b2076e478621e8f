"""Lanes: what kind of handler a task needs, in one word, and whether a worker has it."""

from __future__ import annotations

from fnmatch import fnmatchcase

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
            return any(fnmatchcase(word, pattern) for pattern in handles.names)
        case "command":
            return any(fnmatchcase(word, pattern) for pattern in handles.programs)
        case _:
            return handles.plain
