"""The page that `show` prints about a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stayer.cli.output import json_text, plural, safe
from stayer.cli.tables import STYLES, cell, draw, grid, local_time
from stayer.cli.task_tables import progress, run_time, unsaved
from stayer.core.attempt_summary import describe_duration
from stayer.core.code import lines_of
from stayer.core.fault_text import fault_line
from stayer.core.field_text import field_text
from stayer.core.fields import STORED
from stayer.core.history.gaps import DROPPED
from stayer.core.meta import describe
from stayer.core.model import Attempt, Code, Event, Fault, Pinned, Policy, Task, Usage, Value
from stayer.core.units import ago, format_duration, format_limit, format_size

_MOST_LINES = 40
"""How much of a long value is shown."""
_MOST_EVENTS = 30
_MOST_REQUIREMENTS = 10
_FIRST_ATTEMPTS, _LAST_ATTEMPTS = 5, 25
"""Which of very many attempts are shown."""
_LAST_USAGE_S = 1.0
"""What is said of a task at its end comes at most so many seconds before the end itself."""

_SHOWN_BY_HAND = frozenset((
    "id", "queue", "name", "command", "cwd", "env", "code", "parameters", "priority", "owner",
    "key", "unique", "unique_while", "unique_for", "tags", "meta", "notify", "held", "eta",
    "start_before", "cloned_from", "submitted_by", "source_commit",
))  # fmt: skip
"""Fields of a submission that the page shows in a way of its own. A new one need not be here."""
_OTHERS = tuple(
    field
    for field in STORED
    if field.set_by == "submitter" and field.row.shown and field.name not in _SHOWN_BY_HAND
)


def print_page(
    task: Task,
    attempts: Sequence[Attempt],
    events: Sequence[Event],
    now: float,
    heard_at: float,
    condition: str | None,
    statistics: Iterable[tuple[str, RenderableType]],
) -> None:
    """The record, then its parameters, its result, what it reported of itself, and what
    happened on the way. It is known to have run until `heard_at`, if it runs.
    """
    pictures: list[RenderableType] = [_title(task)]
    if condition:
        pictures.append(Text(safe(condition), "yellow"))
    pictures.append(_facts(task, now, heard_at))
    for heading, content in _sections(task, attempts, events, heard_at, statistics):
        pictures += ["", Text(heading, "bold"), Padding(content, (0, 0, 0, 2), expand=False)]
    draw(*pictures)


def _title(task: Task) -> Text:
    title = Text(safe(task.id), "bold")
    title.append("  ")
    title.append(task.state, STYLES.get(task.state, ""))
    if task.held:
        title.append(" held", "bold magenta")
    if task.paused:
        title.append(" paused", "bold magenta")
    if task.cancel_wanted:
        title.append(" (asked to stop)", "magenta")
    return title


def _facts(task: Task, now: float, heard_at: float) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in _lines(task, now, heard_at):
        if value:
            table.add_row(name, Text(safe(str(value)), overflow="fold"))
    return table


def _lines(task: Task, now: float, heard_at: float) -> Iterator[tuple[str, str | None]]:
    yield "queue", task.queue
    yield "name", task.name
    yield "command", None if task.command is None else _command_line(task.command)
    yield "cwd", task.cwd
    yield "env", " ".join(f"{name}={value}" for name, value in (task.env or {}).items())
    yield "code", None if task.code is None else _describe_code(task.code)
    yield "pinned", None if task.pinned is None else _describe_pinned(task.pinned)
    yield "priority", str(task.priority) if task.priority else None
    yield "owner", task.owner
    yield "from", task.submitted_by
    yield "key", task.key
    yield "unique", _unique(task)
    yield "tags", ", ".join(task.tags)
    yield "meta", describe(task.meta or {}, None)
    yield "tells", " ".join(task.notify)
    yield "clone of", task.cloned_from
    yield "from commit", task.source_commit
    yield from _other_lines(task)
    yield "flow", task.flow and f"{task.flow} ({task.part})"
    yield "after", plural(task.upstreams) if task.upstreams else None
    yield "progress", progress(task)
    yield "ran", _describe_run_time(task, heard_at)
    yield "unsaved", _unsaved(task, heard_at)
    yield "usage", None if task.usage is None else _describe_usage(task.usage)
    yield "limits", _limits(task.policy)
    yield "attempt", _attempt(task)
    yield "fingerprint", task.fingerprint
    yield "node", task.node
    yield "worker", task.worker
    yield "pid", str(task.pid) if task.pid else None
    yield "created", _when(task.created, now)
    yield "due", _when(task.eta, now)
    yield "start before", _when(task.start_before, now)
    yield "finish before", _when(task.finish_before, now)
    yield "started", _when(task.started_at, now)
    yield "finished", _when(task.finished_at, now)


def _other_lines(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the fields of a submission that have no line of their own above."""
    for field in _OTHERS:
        value = getattr(task, field.name)
        if value != field.default:
            yield field.name.replace("_", " "), field_text(field, value)


def _describe_code(code: Code) -> str:
    """Say what was asked for, as the options say it."""
    lines = lines_of(code.requirements)
    shown = [line.partition(" --hash=")[0] for line in lines[:_MOST_REQUIREMENTS]]
    more = [f"and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
    words = [code.image, code.git, code.python and f"Python {code.python}", ", ".join(shown), *more]
    words += [f"with {', '.join(file.name for file in code.files)}"] if code.files else []
    return " · ".join(word for word in words if word)


def _describe_pinned(pinned: Pinned) -> str:
    if pinned.anew:
        return "to be resolved anew"
    words = [
        pinned.python and f"Python {pinned.python}",
        pinned.image,
        pinned.commit and f"commit {pinned.commit}" + (f" of {pinned.git}" if pinned.git else ""),
        pinned.lock and f"lock {pinned.lock[:12]}",
    ]
    return " · ".join(word for word in words if word)


def _describe_run_time(task: Task, heard_at: float) -> str | None:
    """Say how long it ran, and stood still if its keeper could count that to the end."""
    began, ended, used = task.started_at, task.finished_at, task.usage
    if began is None or ended is None or used is None or (used.at or 0.0) < ended - _LAST_USAGE_S:
        return run_time(task, heard_at)
    return describe_duration(ended - began, ended - began - used.ran)


def _unsaved(task: Task, now: float) -> str | None:
    """Return `12m 03s, since its last checkpoint`."""
    lost = unsaved(task, now)
    if lost is None:
        return None
    since = "its last checkpoint" if task.checkpoint_at else "it started: it has saved nothing"
    return f"{format_duration(lost)}, since {since}"


def _unique(task: Task) -> str | None:
    if task.unique is None or not (task.unique_for or task.unique_while == "waiting"):
        return task.unique
    if task.unique_while == "waiting":
        return f"{task.unique} while it waits"
    return f"{task.unique} until {format_duration(task.unique_for)} after its end"


def _describe_usage(usage: Usage) -> str:
    """`CPU 1h 02m (98%), memory 1.2 GB (peak 1.4 GB), read 3 GB, written 200 MB, 4 processes`."""
    parts = [f"CPU {format_duration(usage.cpu)}"]
    if usage.ran:
        parts[0] += f" ({100 * usage.cpu / usage.ran:.0f}%)"
    peak = f"peak {format_size(usage.peak)}"
    parts.append(f"memory {format_size(usage.rss)} ({peak})" if usage.rss else f"memory {peak}")
    parts += [f"read {format_size(usage.read)}", f"written {format_size(usage.written)}"]
    if usage.processes:
        parts.append("1 process" if usage.processes == 1 else f"{usage.processes:,} processes")
    return ", ".join(parts)


def _limits(policy: Policy) -> str:
    limits = (
        ("time", policy.time_limit, format_duration),
        ("silence", policy.silence_limit, format_duration),
        ("memory", policy.memory_limit, format_limit),
        ("grace", policy.grace, format_duration),
    )
    parts = [f"{name} {show(value)}" for name, value, show in limits if value is not None]
    return ", ".join(parts + ([f"fence {policy.fence}"] if policy.fence else []))


def _command_line(words: Sequence[str]) -> str:
    import shlex

    return shlex.join(words)


def _attempt(task: Task) -> str | None:
    if not task.attempt:
        return None
    parts = [f"{task.attempt}"]
    if task.failures:
        parts.append(f"failures {task.failures}, retries {task.policy.retries}")
    if task.interruptions:
        parts.append(f"interruptions {task.interruptions}")
    if task.ending:
        parts.append(f"ending {task.ending}")
    return ", ".join(parts)


def _when(epoch: float | None, now: float) -> str | None:
    return None if epoch is None else f"{local_time(epoch)} ({ago(now - epoch)})"


def _sections(
    task: Task,
    attempts: Sequence[Attempt],
    events: Sequence[Event],
    heard_at: float,
    statistics: Iterable[tuple[str, RenderableType]],
) -> Iterator[tuple[str, RenderableType]]:
    if task.parameters is not None:
        yield "Parameters", _value(task.parameters)
    if task.result is not None:
        yield "Result", _value(task.result)
    if task.error is not None:
        yield "Error", _error(task.error)
    yield from statistics
    if attempts:
        yield "Attempts", _attempts(attempts, heard_at)
    if events:
        yield "Events", _events(events)


def _value(value: Value) -> Text:
    if isinstance(value, bytes):
        return cell(f"{format_size(len(value))} of bytes: --json shows them, as base64")
    if isinstance(value, str):
        return _cut(safe(value, lines=True))
    return _cut(safe(json_text(value, pretty=True), lines=True))


def _cut(text: str, style: str = "", *, tail: bool = False) -> Text:
    """Cut text to what fits a screen; of a traceback the end matters most."""
    lines = text.splitlines()
    if len(lines) <= _MOST_LINES:
        return Text(text, style, overflow="fold")
    cut = f"… {len(lines) - _MOST_LINES:,} more lines: --json shows all"
    shown = [cut, *lines[-_MOST_LINES:]] if tail else [*lines[:_MOST_LINES], cut]
    return Text("\n".join(shown), style, overflow="fold")


def _error(error: Fault) -> Group:
    parts = [Text(safe(fault_line(error), lines=True), "bold red")]
    if error.exit_code is not None:
        parts.append(cell(f"exit code {error.exit_code}"))
    if error.signal is not None:
        parts.append(cell(f"signal {error.signal}"))
    if error.traceback:
        parts.append(_cut(safe(error.traceback, lines=True), "red", tail=True))
    return Group(*parts)


def _attempts(attempts: Sequence[Attempt], heard_at: float) -> Table:
    table = grid(
        "TRY", "ENDING", "NODE*", "PID", "STARTED", "RAN", "CPU", "PEAK", "ERROR*",
        right=("TRY", "RAN", "CPU", "PEAK"),
    )  # fmt: skip
    for attempt in _first_and_last(attempts):
        if isinstance(attempt, str):
            table.add_row(cell("…"), *[cell(None)] * 7, cell(attempt, "dim"))
            continue
        started_at = attempt.started_at
        ended = heard_at if attempt.finished_at is None else attempt.finished_at
        fault, used = attempt.error, attempt.usage
        table.add_row(
            cell(attempt.attempt),
            cell(attempt.ending or "goes on", "" if attempt.ending else "bold yellow"),
            cell(attempt.node),
            cell(attempt.pid),
            cell(local_time(started_at if started_at is not None else attempt.reserved_at)),
            cell(None if started_at is None else format_duration(max(0.0, ended - started_at))),
            cell(None if used is None else format_duration(used.cpu)),
            cell(None if used is None else format_size(used.peak)),
            cell(fault_line(fault) if fault else None, "red"),
        )
    return table


def _first_and_last(attempts: Sequence[Attempt]) -> Iterator[Attempt | str]:
    """Yield the attempts that are shown, and a text where some are left out."""
    hidden = range(_FIRST_ATTEMPTS, len(attempts) - _LAST_ATTEMPTS)
    last = 0
    for position, attempt in enumerate(attempts):
        if attempt.attempt > last + 1:
            yield f"{last + 1:,} to {attempt.attempt - 1:,} are no longer kept"
        if hidden and position == hidden[0]:
            yield f"{len(hidden):,} more: --json shows them"
        if position not in hidden:
            yield attempt
        last = attempt.attempt


def _events(events: Sequence[Event]) -> Group:
    table = grid("AT", "EVENT", "TRY", "WORKER*", "NOTE*", right=("TRY",))
    for event in events[-_MOST_EVENTS:]:
        table.add_row(
            cell(local_time(event.at)),
            cell(event.event, STYLES.get(event.event, "")),
            cell(event.attempt or None),
            cell(event.worker),
            cell(event.note),
        )
    earlier = [event.event for event in events[:-_MOST_EVENTS]]
    if not earlier:
        return Group(table)
    is_whole = DROPPED not in earlier
    text = f"… {len(earlier) - (not is_whole):,} earlier ones: --json shows "
    return Group(cell(text + ("all" if is_whole else "them, and how many are gone")), table)
