"""How an attempt ended, in a line for the log of whoever ran it."""

from __future__ import annotations

from stayer.core.model import Change, Task
from stayer.core.units import format_duration

WORTH_SAYING = 1.0
"""What stood still for less, in seconds, has not stood still."""


def account(task: Task, change: Change, took: float | None, still: float = 0.0) -> str:
    """Describe how an attempt ended: `task a (ffmpeg) failed after 5m 03s (error, ExitCode: exit
    code 1)`.
    """
    after = "" if took is None else f" after {describe_duration(took, still)}"
    return f"{describe_task(task)} {_describe_end(change)}{after}{_why(change)}{_next(change)}"


def describe_duration(took: float, still: float) -> str:
    """Format how long it took: `5m 03s`, and how much of that it was paused or frozen."""
    stood = f", of which it stood still for {format_duration(still)}"
    return format_duration(took) + (stood if still >= WORTH_SAYING else "")


def describe_task(task: Task) -> str:
    """Name a task: `task a (ffmpeg)`, and which attempt it is if it is not the first."""
    kind = f" ({_line(task.kind, 40)})" if task.kind else ""
    return f"task {task.id}{kind}" + (f", attempt {task.attempt}" if task.attempt > 1 else "")


def _describe_end(change: Change) -> str:
    if change.to == "complete":
        return "is complete"
    if change.to == "failed":
        return "failed"
    if change.to == "cancelled":
        return "is cancelled"
    end = change.effect.attempt
    return "was handed back" if end and end.ending in ("interrupted", "lost") else "ended"


def _why(change: Change) -> str:
    end = change.effect.attempt
    if change.to in ("complete", "cancelled") or end is None or end.ending is None:
        return ""
    if (fault := end.error) is not None:
        text = _line(f"{fault.type}: {fault.message}".rstrip(": "), 200)
    else:  # the ending comes first in the note of the event
        text = (change.effect.note or "").partition(": ")[2]
    return f" ({', '.join(each for each in (end.ending, text) if each)})"


def _line(text: str, longest: int) -> str:
    """Put a task's own words on one line, cut to a length."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: longest + 1])
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _next(change: Change) -> str:
    delay = change.effect.times.get("eta")
    return f": the next try is due in {format_duration(delay)}" if delay else ""
