"""Tables of tasks: what `ls` and `top` show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from stayer.cli.table_layout import Column, fit_table
from stayer.cli.tables import STYLES, age, cell, console, short_ids
from stayer.cli.task_columns import arguments, brief_value, shorten
from stayer.core.fault_text import fault_line
from stayer.core.insight.kind import runner_of
from stayer.core.model import FINISHED, RUNNING, Progress, Task, Usage
from stayer.core.units import format_duration, format_size

_WHOLE_ID = 40
"""An id that is longer goes on in the next line, where there is no room for it."""
_BAR_WIDTH = 10
"""How many letters a bar of progress has."""


Silent = Mapping[str, float]
"""Workers that have not been heard of lately: their ids, and for how long."""


def tasks_table(tasks: Sequence[Task], now: float, silent: Silent) -> Table:
    """Make the table of `ls`."""
    words = [name for name in ("key", "unique") if any(getattr(task, name) for task in tasks)]
    shown = [arguments(task) for task in tasks]
    columns = [
        Column("ID", least=_WHOLE_ID, rank=0, whole=True),
        Column("STATE"),
        Column("QUEUE", least=8, rank=3, goes=3),
        Column("KIND", least=8, rank=2, goes=5),
        *([Column("ARGUMENTS", least=10, rank=2, goes=4)] if any(shown) else []),
        *(Column(name.upper(), least=8, rank=4) for name in words),
        Column("PROGRESS", least=26, rank=1, goes=7),
        Column("AGE", right=True, goes=4),
        Column("RAN", right=True, goes=6),
        Column("TRY", right=True, goes=2),
        Column("NODE", least=8, rank=5, goes=1),
    ]
    short = short_ids(task.id for task in tasks)
    rows = [
        (
            cell(short[task.id]),
            _state(task),
            cell(task.queue),
            cell(runner_of(task.kind) if text else task.kind),
            *([cell(text)] if any(shown) else []),
            *(cell(getattr(task, name)) for name in words),
            latest_news(task, now, silent),
            cell(age(now - task.created)),
            cell(run_time(task, last_contact(task, now, silent))),
            cell(task.attempt or None),
            cell(task.node),
        )
        for task, text in zip(tasks, shown, strict=True)
    ]
    return fit_table(columns, rows, console().width)


def _state(task: Task) -> Text:
    state = cell(task.state, STYLES.get(task.state, ""))
    if task.held:
        state.append(" held", "bold magenta")
    if task.paused:
        state.append(" paused", "bold magenta")
    return state


def running_table(tasks: Sequence[Task], now: float, loads: Loads, silent: Silent) -> Table:
    """Make the table of `top`."""
    columns = [
        Column("ID", least=_WHOLE_ID, rank=0, whole=True),
        Column("KIND", least=8, rank=1),
        Column("PROGRESS"),
        *(Column(heading, right=True) for heading in ("LEFT", "RAN")),
        Column("UNSAVED", right=True, goes=4),
        *(Column(heading, right=True) for heading in ("CPU", "MEMORY")),
        Column("NODE", least=8, rank=3, goes=1),
        Column("TRY", right=True, goes=2),
        Column("REPORT", right=True, goes=3),
        Column("", least=8, rank=2),
    ]
    short = short_ids(task.id for task in tasks)
    rows = []
    for task in tasks:
        made, last = task.progress or Progress(), last_contact(task, now, silent)
        left = None if made.remaining is None or task.worker in silent else age(made.remaining)
        rows.append(
            (
                cell(short[task.id]),
                cell(task.kind),
                bar(made),
                cell(left),
                cell(run_time(task, last)),
                cell(None if (lost := unsaved(task, last)) is None else age(lost)),
                cell(loads.of(task)),
                cell(format_size(task.usage.rss) if task.usage else None),
                cell(task.node),
                cell(task.attempt),
                cell(None if made.at is None else age(now - made.at)),
                _silence(task, silent) or _condition(task, made),
            )
        )
    return fit_table(columns, rows, console().width)


def _condition(task: Task, made: Progress) -> Text:
    if task.cancel_wanted:
        return cell("stopping", "magenta")
    return cell("paused", "bold magenta") if task.paused else cell(made.message, "dim")


def _silence(task: Task, silent: Silent) -> Text | None:
    """Say for how long its worker is silent, if it is: then nobody knows what the task does."""
    if task.state not in RUNNING or task.worker is None or task.worker not in silent:
        return None
    return cell(f"worker silent for {age(silent[task.worker])}", "bold red")


def last_contact(task: Task, now: float, silent: Silent) -> float:
    """Return until when the task is known to have run."""
    return now - silent.get(task.worker or "", 0.0)


class Loads:
    """How busy tasks are, between one look and the next; at first, since they began."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[Usage, float | None]] = {}

    def of(self, task: Task) -> str | None:
        """Return its load in percent of one processor."""
        used = task.usage
        if used is None:
            return None
        before, load = self._seen.get((task.id, task.attempt), (Usage(), None))
        if used.ran > before.ran:
            load = max(0.0, used.cpu - before.cpu) / (used.ran - before.ran)
        self._seen[task.id, task.attempt] = used, load
        return None if load is None else f"{100 * load:.0f}%"


def bar(made: Progress) -> Text:
    """Draw `████······  40%`, or a bare number where there is no total."""
    if made.done is None:
        return cell(None)
    if not made.total or not math.isfinite(made.done / made.total):
        return cell(f"{made.done:g}")
    share = min(1.0, max(0.0, made.done / made.total))
    full = int(share * _BAR_WIDTH)
    text = cell("█" * full, "green")
    text.append("·" * (_BAR_WIDTH - full), "dim")
    return text.append(f" {100 * share:3.0f}%")


def latest_news(task: Task, now: float, silent: Silent) -> Text:
    """Say how far it is, what went wrong, when it is due, or what it returned: what matters now."""
    if (silence := _silence(task, silent)) is not None:
        return silence
    if task.state == "failed" and task.error:
        return cell(fault_line(task.error), "red")
    if task.state == "scheduled" and task.eta is not None:
        return cell(f"in {age(task.eta - now)}", "cyan")
    if task.cancel_wanted:
        return cell("stopping", "magenta")
    if task.state == "complete":
        return cell(shorten(brief_value(task.result)), "dim")
    return cell(progress(task) if task.state not in FINISHED else None)


def progress(task: Task) -> str:
    """Return `40%  2h 03m left  epoch 4`."""
    made = task.progress
    if made is None:
        return ""
    parts = []
    if made.done is not None and made.total:
        parts.append(f"{100 * made.done / made.total:.0f}%")
    elif made.done is not None:
        parts.append(f"{made.done:g}")
    if made.remaining is not None and task.state in RUNNING:
        parts.append(f"{format_duration(made.remaining)} left")
    if made.message:
        parts.append(made.message)
    return "  ".join(parts)


def run_time(task: Task, now: float) -> str | None:
    """Return how long its last attempt ran, or has been running, with what it stood still."""
    if task.started_at is None:
        return None
    if task.state == "started":
        return format_duration(max(0.0, now - task.started_at))
    if task.state in FINISHED and task.finished_at is not None:
        return format_duration(task.finished_at - task.started_at)
    return None


def unsaved(task: Task, now: float) -> float | None:
    """Return the seconds of work that a crash would lose: since its checkpoint, else its start."""
    if task.state != "started" or task.started_at is None:
        return None
    return max(0.0, now - max(task.started_at, task.checkpoint_at or 0.0))
