"""`log`: what a task printed."""

from __future__ import annotations

from collections.abc import Iterator

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import task_id_argument
from stayer.cli.follow import Printer, follow
from stayer.cli.output import note, print_json_array
from stayer.cli.param_types import DURATION
from stayer.core.errors import BadInput
from stayer.core.model import FINISHED, JSON, Task
from stayer.core.units import rfc3339
from stayer.service.control import logs
from stayer.service.control import tasks as control
from stayer.service.degraded.retry import retry_while_unreachable
from stayer.store import Store


@command()
@task_id_argument
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Keep running, and print what is new."
)
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="Of this attempt. Default: the last one; with -f, those that follow too.",
)
@click.option(
    "-n", "--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines."
)
@click.option(
    "--since", type=DURATION, metavar="DURATION", help="Begin with what came in the last 10m, 2h …"
)
@click.option(
    "--offset", type=click.IntRange(0), metavar="BYTES", help="Begin after this many bytes."
)
@click.option("--json", "as_json", is_flag=True, help="Print an array of pieces, as JSON.")
def log(
    given: Given,
    id: str,
    following: bool,
    attempt: int | None,
    tail: int | None,
    since: float | None,
    offset: int | None,
    as_json: bool,
) -> None:
    """Print what a task wrote to its output.

    The output is printed as it was written; on a terminal, only colours pass. Of a long log the
    first and the last part are kept: stderr says how much is missing in between. A worker sends
    news with each heartbeat, eight times in its lease, and every second while somebody follows.
    With -f, it also waits for a store that can't be reached.
    """
    if sum(given is not None for given in (tail, since, offset)) > 1:
        raise BadInput("give --tail, --since or --offset, only one of them")
    if following and as_json:
        raise BadInput("-f prints what comes as it comes: leave out --json, or -f")
    printer = Printer()

    def begin() -> Task:
        store = given.store()
        task = control.get(store, control.resolve(store, id))
        _check(task, attempt)
        shown = attempt or task.attempt
        printer.offset = offset or 0
        if tail is not None:
            pieces = list(logs.read(store, task.id, shown))
            printer.offset = logs.beginning_of_tail(pieces, tail)
        if since is not None:
            printer.offset = _offset_since(store, task, shown, store.now() - since)
        return task

    if as_json:
        store, task = given.store(), begin()
        print_json_array(_pieces(store, task, attempt or task.attempt, printer.offset))
    elif following:
        task = retry_while_unreachable(begin, None, note)
        follow(given.store(), task.id, printer, attempt)
    else:
        _print(given.store(), begin(), printer, attempt)


def _pieces(store: Store, task: Task, attempt: int, offset: int) -> Iterator[JSON]:
    """Yield what the attempt wrote, from the offset on: where, when it came, and the text."""
    for piece in logs.read(store, task.id, attempt, offset) if attempt else ():
        skipped = max(0, offset - piece.start)
        text = piece.data[skipped:].decode("utf-8", "replace")
        at = None if piece.at is None else rfc3339(piece.at)
        if text:
            yield {"attempt": attempt, "start": piece.start + skipped, "at": at, "text": text}


def _print(store: Store, task: Task, printer: Printer, attempt: int | None) -> None:
    shown = attempt or task.attempt
    printer.print(logs.read(store, task.id, shown, printer.offset))
    printer.end()
    if not printer.offset:
        note(_why_nothing(store, task, shown))


def _offset_since(store: Store, task: Task, attempt: int, moment: float) -> int:
    """Return the offset of the first piece that came then or later; the end if there is none."""
    offset = 0
    for piece in logs.read(store, task.id, attempt):
        if piece.at is not None and piece.at >= moment:
            return piece.start
        offset = piece.start + len(piece.data)
    return offset


def _check(task: Task, attempt: int | None) -> None:
    if attempt is not None and attempt > task.attempt:
        number = f"attempts 1 to {task.attempt}" if task.attempt else "no attempt yet"
        raise BadInput(f"task {task.id} has no attempt {attempt}: there is {number}")


def _why_nothing(store: Store, task: Task, attempt: int) -> str:
    if not task.attempt:
        return f"task {task.id} is {task.state}: it has printed nothing, because it has not run"
    if attempt not in {each.attempt for each in store.attempts(task.id)}:
        return (
            f"attempt {attempt} of task {task.id} is no longer kept, nor is its log: of very many "
            "attempts only the first and the last are. `stayer show` lists them"
        )
    if task.state in FINISHED:
        return f"task {task.id} is {task.state}: it printed nothing"
    return f"task {task.id} is {task.state}: nothing of its output is here yet (-f waits for it)"
