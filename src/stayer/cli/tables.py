"""Tables for people. Imports rich, so only what draws imports this."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

import rich_click as click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from stayer.cli.output import is_terminal, on_screen, safe
from stayer.core.fault_text import error_line
from stayer.core.insight.failures import Failure
from stayer.core.insight.queue_stats import Figures
from stayer.core.liveness.lost_workers import LostWorker, why
from stayer.core.liveness.silent import stuck_for
from stayer.core.model import STATES
from stayer.core.ordering import rate_limit
from stayer.core.queue_model import QueueInfo
from stayer.core.units import format_duration
from stayer.core.worker_model import Worker

STYLES = {
    "waiting": "dim",
    "scheduled": "cyan",
    "pending": "",
    "reserved": "yellow",
    "started": "bold yellow",
    "complete": "green",
    "failed": "bold red",
    "cancelled": "magenta",
    "IDLE": "green",
    "PROCESSING": "bold yellow",
    "DRAINING": "cyan",
    "STALE": "bold red",
}

_FIGURE_COLUMNS = ("submitted", "complete", "failed", "cancelled", "depth", "running")
_STATES_ALWAYS_SHOWN = ("pending", "started", "complete", "failed")

_GENERATED = re.compile(r"[a-z2-7]{16}")
SHORT_ID_LENGTH = 10
"""Of a generated id. The ids of one batch share the first four characters: of a million batches of
a thousand, one has two tasks that are the same in ten.
"""
_LONGEST_ID = 32
"""On a screen a longer id is cut."""
_UNBOUNDED_WIDTH = 1000
"""The width of what is not a screen."""


def console() -> Console:
    """Open the console for tables: as wide as the screen, or as they need where there is none."""
    width = None if on_screen() or os.environ.get("COLUMNS") else _UNBOUNDED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def draw(*pictures: RenderableType, paged: bool = False) -> None:
    """Print these; what goes into a file or a pipe has no blanks at its line ends. `paged`: what is
    longer than the screen goes through the pager of the user.
    """
    if sys.stdout is None:
        return
    screen = console()
    if screen.is_terminal and paged and is_terminal():
        with screen.capture() as captured:
            screen.print(*pictures, sep="\n")
        text = captured.get()
        if text.count("\n") >= screen.height:
            click.echo_via_pager(text, color=not screen.no_color)
        else:
            click.echo(text, nl=False, color=not screen.no_color)
        return
    if screen.is_terminal:
        screen.print(*pictures, sep="\n")
        return
    with screen.capture() as captured:
        screen.print(*pictures, sep="\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def grid(*columns: str, right: Sequence[str] = ()) -> Table:
    """Make an empty table; a column in `right` has numbers, one that ends in * may be cut."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.rstrip("*"),
            justify="right" if column in right else "left",
            no_wrap=not column.endswith("*"),
        )
    return table


def cell(value: object, style: str = "") -> Text:
    """Make a cell of data, which can neither style the table nor command the terminal."""
    text = "" if value is None else safe(str(value))
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Shorten ids to beginnings that name these tasks; one that somebody chose stays whole."""
    full = sorted(ids)
    short: dict[str, str] = {}
    for index, id in enumerate(full):
        neighbours = full[max(0, index - 1) : index] + full[index + 1 : index + 2]
        common = max((_common_length(id, other) for other in neighbours), default=0)
        length = max(SHORT_ID_LENGTH, common + 1) if _GENERATED.fullmatch(id) else len(id)
        short[id] = id[:length]
    return short


def _common_length(one: str, other: str) -> int:
    """Count the characters that they have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def queues_table(queues: Sequence[QueueInfo], now: float) -> Table:
    """Make the table of `queues`: with the usual states, and those that are not empty."""
    states = [
        state
        for state in STATES
        if state in _STATES_ALWAYS_SHOWN or any(queue.counts.get(state) for queue in queues)
    ]
    headings = [state.upper() for state in states]
    numbers = ("LIMIT", *headings, "WORKERS", "OLDEST")
    limited = any(map(other_limits, queues))
    table = grid("QUEUE", "", *numbers, *(["LIMITS*"] if limited else []), right=numbers)
    for queue in queues:
        counts = ((state, queue.counts.get(state, 0)) for state in states)
        table.add_row(
            cell(queue.name),
            cell("paused" if queue.paused else "", "bold magenta"),
            cell(queue.limit),
            *(cell(number, STYLES[state] if number else "dim") for state, number in counts),
            cell(queue.workers),
            cell(None if queue.oldest is None else age(now - queue.oldest)),
            *([cell(other_limits(queue))] if limited else []),
        )
    return table


def other_limits(queue: QueueInfo) -> str:
    """List a queue's other limits: `key 2, key ann 5, rate 100/1h, fair owner`."""
    parts = [] if queue.key_limit is None else [f"key {queue.key_limit}"]
    parts += [f"key {key} {limit}" for key, limit in sorted(queue.key_limits.items())]
    parts += [] if queue.rate is None else [f"rate {rate_limit.format_rate(queue.rate)}"]
    parts += [] if queue.fair is None else [f"fair {queue.fair}"]
    return ", ".join(parts)


def failures_table(failures: Sequence[Failure], now: float) -> Table:
    """Make the table of `failures`."""
    table = grid(
        "FINGERPRINT", "COUNT", "FIRST", "LAST", "KIND*", "QUEUE*", "EXAMPLE", "ERROR*",
        right=("COUNT", "FIRST", "LAST"),
    )  # fmt: skip
    if console().is_terminal:
        table.columns[6].max_width = _LONGEST_ID
    short = short_ids(failure.example for failure in failures)
    for failure in failures:
        others = len(failure.queues) - 1
        table.add_row(
            cell(failure.fingerprint),
            cell(f"{failure.count:,}", STYLES["failed"]),
            cell(age(now - failure.first)),
            cell(age(now - failure.last)),
            cell(failure.kind),
            cell(failure.queues[0] + (f" +{others}" if others else "")),
            cell(short[failure.example]),
            cell(error_line(failure.type, failure.message), "red"),
        )
    return table


def figures_table(found: Sequence[Figures], *, by_queue: bool) -> Table:
    """Make the table of `stats`."""
    heading = ["FROM", *(["QUEUE"] if by_queue else [])]
    numbers = (*(name.upper() for name in _FIGURE_COLUMNS), "OLDEST", "RAN", "WAITED")
    table = grid(*heading, *numbers, right=numbers)
    for each in found:
        ended = each.complete + each.failed + each.cancelled
        values = [getattr(each, name) for name in _FIGURE_COLUMNS]
        table.add_row(
            local_time(each.at),
            *([cell(each.queue)] if by_queue else []),
            *("" if value is None else f"{value:,}" for value in values),
            "" if each.age is None else format_duration(each.age),
            format_duration(each.ran / ended) if ended else "",
            format_duration(each.waited / ended) if ended else "",
        )
    return table


def workers_table(workers: Sequence[Worker], now: float) -> Table:
    """Make the table of `workers`."""
    table = grid(
        "ID", "STATE", "NODE*", "PID", "RUNNING", "QUEUES*", "LAST BEAT", "UP", "VERSION",
        right=("PID", "RUNNING", "LAST BEAT", "UP"),
    )  # fmt: skip
    for worker in workers:
        table.add_row(
            cell(worker.id),
            _worker_state(worker, now),
            cell(worker.node),
            cell(worker.pid),
            cell(f"{worker.running}/{worker.slots}"),
            cell(_queues_of(worker)),
            cell(f"{age(now - worker.beat_at)} ago"),
            cell(age(now - worker.started_at)),
            cell(worker.version),
        )
    return table


def _queues_of(worker: Worker) -> str:
    """Those that it takes from, and what it was told to do that it has not heard of, or can't."""
    said, order = ", ".join(worker.queues), worker.order
    if order is None or worker.draining:
        return said
    if order.grace is not None:
        return f"{said} (told to stop)"
    other_queues = order.queues is not None and order.queues != worker.queues
    other_slots = order.slots is not None and order.slots != worker.slots
    wanted = [
        *([", ".join(order.queues)] if other_queues and order.queues else []),
        *([f"{order.slots} at once"] if other_slots else []),
    ]
    return f"{said} (told: {', '.join(wanted)})" if wanted else said


def lost_workers_table(lost: Sequence[LostWorker], now: float) -> Table:
    """Make the table of workers that are down."""
    table = grid("ID", "STATE", "NODE*", "DOWN SINCE", "WHY*", "RAN*")
    for each in lost:
        shown, others = ", ".join(each.tasks), each.running - len(each.tasks)
        reason = cell(why(each))
        reason.no_wrap, reason.overflow = False, "fold"  # not to be cut: it is what one looks for
        table.add_row(
            cell(each.id),
            cell("DOWN", STYLES["STALE"]),
            cell(each.node),
            cell(f"{age(now - each.beat_at)} ago"),
            reason,
            cell(f"{shown} and {others:,} more" if others > 0 and shown else shown or "nothing"),
        )
    return table


def _worker_state(worker: Worker, now: float) -> Text:
    stuck = stuck_for(worker, now)
    if worker.state == "STALE" or stuck is None:
        return cell(worker.state, STYLES.get(worker.state, ""))
    return cell(f"STUCK {age(stuck)}", STYLES["STALE"])


def age(seconds: float) -> str:
    """Format an age, in whole seconds."""
    return format_duration(max(0, int(seconds)) if math.isfinite(seconds) else seconds)


def local_time(epoch: float | None) -> str:
    """Format a moment in the user's own time zone; what no calendar has is a question mark."""
    if epoch is None:
        return ""
    try:
        return datetime.fromtimestamp(epoch).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):
        return "?"
