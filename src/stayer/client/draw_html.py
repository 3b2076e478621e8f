"""A task as a notebook shows it: its state, how far it is, and what went wrong."""

from __future__ import annotations

from html import escape

from stayer.core.fault_text import fault_line
from stayer.core.model import Task
from stayer.core.units import format_duration


def draw(task: Task) -> str:
    """Return HTML without scripts; what comes from the task is text in it."""
    rows = [f"<b>{escape(task.kind or 'task')}</b> <code>{escape(task.id)}</code>: {task.state}"]
    progress = task.progress
    if progress is not None and progress.done is not None:
        rows.append(_bar(progress.done, progress.total, progress.remaining))
    if progress is not None and progress.message:
        rows.append(escape(progress.message))
    if task.error is not None:
        rows.append(f"<code>{escape(fault_line(task.error))}</code>")
    if task.state == "complete" and task.result is not None:
        shown = repr(task.result)
        rows.append(
            f"<code>{escape(shown if len(shown) < _LONGEST else shown[:_LONGEST] + '…')}</code>"
        )
    return f"<div>{'<br>'.join(rows)}</div>"


_LONGEST = 500
"""How many characters of a result are shown."""


def _bar(done: float, total: float | None, remaining: float | None) -> str:
    if not total:
        return f"{done:g} done"
    left = "" if not remaining else f", {format_duration(remaining)} left"
    share = f"{100 * done / total:.0f} %"
    return f'<progress value="{done:g}" max="{total:g}"></progress> {share}{left}'
