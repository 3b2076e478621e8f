"""How an attempt ended, in a line for the log of whoever ran it."""

from __future__ import annotations

from stayer.core.fault_text import fault_line
from stayer.core.model import Change, Task
from stayer.core.units import format_duration

WORTH_SAYING = 1.0
"""What stood still for less, in seconds, has not stood still."""


def account(task: Task, change: Change, took: float | None, still: float = 0.0) -> str:
    """`task a (ffmpeg) failed after 5m 03s (error, ExitCode: exit code 1)`."""
    after = "" if took is None else f" after {lasted(took, still)}"
    return f"{named(task)} {_became(change)}{after}{_why(change)}{_next(change)}"


def lasted(took: float, still: float) -> str:
    """`5m 03s`, and how much of that it did nothing because it was paused or frozen."""
    stood = f", of which it stood still for {format_duration(still)}"
    return format_duration(took) + (stood if still >= WORTH_SAYING else "")


def named(task: Task) -> str:
    """`task a (ffmpeg)`, and which try it is if it is not the first."""
    kind = f" ({_line(task.kind, 40)})" if task.kind else ""
    return f"task {task.id}{kind}" + (f", attempt {task.attempt}" if task.attempt > 1 else "")


def _became(change: Change) -> str:
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
        said = _line(fault_line(fault), 200)
    else:  # the ending comes first in the note of the event
        said = (change.effect.note or "").partition(": ")[2]
    return f" ({', '.join(each for each in (end.ending, said) if each)})"


def _line(text: str, longest: int) -> str:
    """What a task says of itself must not make lines of its own."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: longest + 1])
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _next(change: Change) -> str:
    delay = change.effect.times.get("eta")
    return f": the next try is due in {format_duration(delay)}" if delay else ""
