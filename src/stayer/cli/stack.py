"""`stack`: where a running Python task is."""

from __future__ import annotations

import time

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import json_option, task_id_argument
from stayer.cli.follow import LOG_POLL_S, Printer
from stayer.cli.output import note, print_json
from stayer.cli.param_types import DURATION
from stayer.core.model import FINISHED, LogPiece, Task
from stayer.service.control import logs
from stayer.service.control import tasks as control
from stayer.service.live_updates import Attention
from stayer.service.operator import operator_of
from stayer.store import Store

_STACK = b"(most recent call first):"
"""What Python writes above the stack of a thread."""


@command()
@task_id_argument
@click.option(
    "--wait",
    "patience",
    type=DURATION,
    default="20s",
    metavar="DURATION",
    help="How long to wait for the answer. Default: 20s.",
)
@json_option
def stack(given: Given, id: str, patience: float, as_json: bool) -> int:
    """Show where a running Python task is: the stacks of its threads.

    The task writes them to its log, which its worker sends within a second or two.
    """
    store = given.store()
    task = control.get(store, control.resolve(store, id, to_change=True))
    before = _end_of_log(store, task, 0)
    offset = before[-1].start + len(before[-1].data) if before else 0
    task = operator_of(store).stack(task.id)
    found = _await_stack(store, task, offset, patience)
    if not found:
        note(f"task {task.id} was asked, no answer yet: it comes in `stayer log -f {task.id}`")
        return 1
    if as_json:
        text = b"".join(piece.data for piece in found).decode("utf-8", "replace")
        print_json({"id": task.id, "attempt": task.attempt, "text": text})
        return 0
    printer = Printer()
    printer.offset = found[0].start
    printer.print(found)
    printer.end()
    return 0


def _await_stack(store: Store, task: Task, offset: int, patience: float) -> list[LogPiece]:
    """Wait for what comes to the log; return it if there is a stack in it."""
    deadline = time.monotonic() + patience
    attention = Attention(store)
    while True:
        current = control.get(store, task.id)
        attention.pay([current])
        pieces = _end_of_log(store, task, offset)
        written = b"".join(piece.data for piece in pieces)
        if _STACK in written and written.endswith(b"\n"):
            return pieces
        over = current.state in FINISHED or current.attempt != task.attempt
        if over or time.monotonic() >= deadline:
            return []
        time.sleep(LOG_POLL_S)


def _end_of_log(store: Store, task: Task, offset: int) -> list[LogPiece]:
    return list(logs.read(store, task.id, task.attempt, offset))
