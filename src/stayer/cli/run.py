"""`run`: submit a command, show what it prints, end as it ends."""

from __future__ import annotations

import re
import select
import signal
import sys
import time
from types import FrameType
from typing import Any, Self

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.exit_codes import CANCELLED, KILLED
from stayer.cli.follow import LOG_POLL_S, Printer, follow
from stayer.cli.output import is_terminal, note, print_json, print_outcome
from stayer.cli.submit import submission_options, submit
from stayer.core import codec
from stayer.core.fault_text import fault_line
from stayer.core.model import FINISHED, QUEUED, Fault, Task
from stayer.service.control import tasks as control
from stayer.service.control import waits
from stayer.service.explain import needs_somebody, why_waiting
from stayer.service.operator import operator_of
from stayer.store import Store

_EXPLAIN_AFTER_S = 1.0
"""How long it may wait before somebody wants to know why, in seconds."""
_EXPLAIN_TO_FILES_AFTER_S = 3.0
"""The same where no terminal is, and only what somebody must do something about."""
_NUMBERS = re.compile(r"\d[\d.,]*\w*")
"""With their units. What only counts down is not said again."""


class Detached(Exception):
    """Whoever waited goes; the task stays."""

    def __init__(self, number: int) -> None:
        self.number = number


@command(context_settings={"allow_interspersed_args": False})
@argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[--] COMMAND [ARG]...",
    help="The command that the task is to run.",
)
@submission_options(leave_out=("name", "parameters", "held"))
@click.option("--detach", is_flag=True, help="Only print its id; `stayer log -f` shows the rest.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the record when it has ended, as JSON, instead of what the command prints.",
)
def run(given: Given, words: tuple[str, ...], detach: bool, as_json: bool, **options: Any) -> int:
    """Submit a command, show what it prints, and end as it ends.

    `stayer run -- make all` is `make all` on any worker that is free. The exit code is that of the
    command; 128 + N if signal N killed it, 3 if the task was cancelled. Ctrl-C asks whether to
    cancel the task or to leave it running. After a second Ctrl-C, after TERM, and where there is no
    terminal, it runs on.
    """
    task = submit(given, words, options).task
    if detach:
        print_outcome(task.id, codec.record(task), as_json)
        return 0
    if as_json:
        return _wait_for_record(given.store(make=True), task.id)
    try:
        with Interruptions() as interruptions:
            return exit_code(_follow(given.store(make=True), task.id, interruptions))
    except Detached as detached:
        note(f"task {task.id} goes on without you: `stayer log -f {task.id}` shows it")
        return KILLED + detached.number


def _wait_for_record(store: Store, id: str) -> int:
    """Print the record of the task once it has ended, and return its exit code."""
    [task] = waits.wait(store, [id], None, note)
    print_json(codec.record(task))
    return exit_code(task)


def exit_code(task: Task) -> int:
    """Return the exit code of the task's command, as a shell would."""
    if task.state == "complete":
        return 0
    if task.state == "cancelled":
        note(f"task {task.id} was cancelled")
        return CANCELLED
    error = task.error or Fault("unknown")
    note(f"task {task.id} failed: {fault_line(error)}")
    if error.exit_code is not None:
        return error.exit_code
    return 1 if error.signal is None else KILLED + error.signal


def _follow(store: Store, id: str, interruptions: Interruptions) -> Task:
    waiting = Waiting(store)

    def each(task: Task) -> None:
        waiting.explain(task)
        if interruptions.take() and task.state not in FINISHED:
            _ask_what_to_do(store, task, interruptions)

    return follow(store, id, Printer(), each=each)


def _ask_what_to_do(store: Store, task: Task, interruptions: Interruptions) -> None:
    """Cancel it, or raise Detached; it may also end before somebody has decided."""
    click.echo(
        f"\nTask {task.id}: [c]ancel it, or [d]etach and let it run? [d]: ", nl=False, err=True
    )
    while True:
        if interruptions.take():
            click.echo(err=True)
            raise Detached(signal.SIGINT)
        if control.get(store, task.id).state in FINISHED:
            click.echo(err=True)
            return
        if not select.select([sys.stdin], [], [], LOG_POLL_S)[0]:
            continue
        answer = sys.stdin.readline().strip().lower()
        if answer in ("c", "cancel"):
            operator_of(store).cancel(task.id)
            note(f"task {task.id} is asked to stop")
            return
        if answer in ("", "d", "detach"):
            raise Detached(signal.SIGINT)
        click.echo("Write c or d: ", nl=False, err=True)


class Waiting:
    """Says to whoever looks why the task does not start."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since = time.monotonic()
        self._last_line = ""

    def explain(self, task: Task) -> None:
        """Say why it waits, once for each reason, and only if it takes a while."""
        if task.state == "reserved":
            return  # its worker may refuse it, and then it waits for the same reason as before
        if task.state not in QUEUED:
            self._last_line = ""
            self._since = time.monotonic()
            return
        somebody_looks = _somebody_looks()
        patience = _EXPLAIN_AFTER_S if somebody_looks else _EXPLAIN_TO_FILES_AFTER_S
        if time.monotonic() - self._since < patience or (self._last_line and not somebody_looks):
            return
        found = operator_of(self._store).explain(task.id)
        if not somebody_looks and not needs_somebody(found):
            return
        why = why_waiting(found)
        kind = " ".join(_NUMBERS.sub("", why).split())
        if kind != self._last_line:
            note(f"task {task.id} waits: {why}")
            self._last_line = kind


def _somebody_looks() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class Interruptions:
    """Ctrl-C, kept until it can be asked what was meant; a second one in the meantime, TERM, and
    any where there is nobody to ask, is Detached at once.
    """

    def __init__(self) -> None:
        self._came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._keep)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def take(self) -> bool:
        """Return whether one came since the last call."""
        came, self._came = self._came, False
        return came

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self._came or number != signal.SIGINT or not is_terminal():
            raise Detached(number)
        self._came = True
