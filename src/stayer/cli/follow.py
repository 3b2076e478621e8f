"""The log of a task on the screen, once or as it grows. For `log`, `run` and `stack`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

import rich_click as click

from stayer.cli.output import note, on_screen, write_bytes
from stayer.cli.terminal_safe import SafeOutput
from stayer.core.errors import StoreUnreachable
from stayer.core.model import FINISHED, RUNNING, LogPiece, Task
from stayer.service.control import logs, waits
from stayer.service.control import tasks as control
from stayer.service.degraded.retry import retry_while_unreachable
from stayer.service.live_updates import Attention
from stayer.store import Store

LOG_POLL_S = 0.5
"""A log makes no events: how often to look at it, in seconds."""


class Printer:
    """Writes pieces of one log after another to stdout; what is missing is said on stderr."""

    def __init__(self) -> None:
        self.offset = 0
        self._safe_output = SafeOutput() if on_screen() else None

    def print(self, pieces: Iterable[LogPiece]) -> None:
        """Print these pieces, less what was printed before."""
        for piece in pieces:
            if piece.start > self.offset:
                self.end()
                left_out = piece.start - self.offset
                click.echo(f"… {left_out:,} bytes left out …", err=True)
            data = piece.data[max(0, self.offset - piece.start) :]
            self.offset = max(self.offset, piece.start + len(piece.data))
            write_bytes(data if self._safe_output is None else self._safe_output.feed(data))

    def end(self) -> None:
        """Write what was held back: nothing more of this log comes, or not soon."""
        if self._safe_output is not None and sys.stdout is not None:
            write_bytes(self._safe_output.end())


def follow(
    store: Store,
    id: str,
    printer: Printer,
    attempt: int | None = None,
    each: Callable[[Task], None] = lambda task: None,
) -> Task:
    """Print what comes until the task, or that attempt, has ended; return the task as it is then.

    Goes on to the next attempt unless one is named. `each` hears of every look at the task. A store
    that is out of reach for a while is waited for: a task may take days.
    """
    following = _Following(store, id, printer, attempt)
    attention = Attention(store)

    def look() -> tuple[int, Task, bool]:
        seen, task = store.last_event(), control.get(store, id)
        attention.pay([task])
        each(task)
        return seen, task, following.is_over(task)

    while True:
        seen, task, is_over = retry_while_unreachable(look, None, note)
        if is_over:
            printer.end()
            return task
        with suppress(StoreUnreachable):  # which is told of at the next look
            waits.watch(store, id, seen, LOG_POLL_S)


class _Following:
    """Which attempt is shown."""

    def __init__(self, store: Store, id: str, printer: Printer, attempt: int | None) -> None:
        self._store = store
        self._id = id
        self._printer = printer
        self._only = attempt
        self._shown = attempt

    def is_over(self, task: Task) -> bool:
        """Print what is new; return whether nothing more will come."""
        self._print()
        if self._only is not None:
            return task.attempt > self._only or task.state not in RUNNING
        if self._shown is None and task.attempt:
            self._shown = task.attempt
            self._print()
        elif self._shown is not None and task.attempt > self._shown and _has_begun(task):
            self._printer.end()
            where = f" on {task.node}" if task.node else ""
            note(f"attempt {task.attempt} of task {task.id} begins{where}")
            self._shown, self._printer.offset = task.attempt, 0
            self._print()
        return task.state in FINISHED

    def _print(self) -> None:
        # Called after the task was read: the last of a log comes before the end of its attempt.
        if self._shown is not None:
            offset = self._printer.offset
            self._printer.print(logs.read(self._store, self._id, self._shown, offset))


def _has_begun(task: Task) -> bool:
    """Return whether it ran: a task that its worker refused has a new attempt, but never began."""
    return task.state != "reserved" and task.started_at is not None
