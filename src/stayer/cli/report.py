"""`report`: what a shell script within a task has to say. Writes files, and knows no store."""

from __future__ import annotations

import math
import os
import re
from typing import NoReturn

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.output import stdin
from stayer.task import atomic_files, reports

_AMOUNT = re.compile(r"\s*([0-9.eE+]+)\s*(?:/\s*([0-9.eE+]+)|(%))?\s*")


@command()
@argument(
    "amount",
    required=False,
    metavar="[DONE[/TOTAL]]",
    help="How far it is: 40, 40/100 or 40%.",
)
@click.option("--message", metavar="TEXT", help="What it is doing now.")
@click.option(
    "--checkpoint",
    metavar="FILE|-",
    help="Save this file, or stdin, for the next attempt; it finds it at $STAYER_CHECKPOINT.",
)
@click.option(
    "--result",
    metavar="JSON|-|@FILE",
    help="What came out of the task: JSON, - for stdin, or @ and a file; these may be any bytes.",
)
@click.option(
    "--meta",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a field of your own: JSON, or else text; null takes it away. May be repeated.",
)
def report(
    _: Given,
    amount: str | None,
    message: str | None,
    checkpoint: str | None,
    result: str | None,
    meta: tuple[str, ...],
) -> None:
    """Say from within a task how far it is, save its state, set its result or meta.

    For scripts: `stayer report 40/100 --message encoding`. A worker sets the variables that lead to
    the task; elsewhere there is nothing to report to.
    """
    if (amount, message, checkpoint, result, meta) == (None, None, None, None, ()):
        raise click.UsageError("there is nothing to report: say how far it is, for example 40/100")
    done, total = _numbers(amount)
    if checkpoint is not None:
        _save_checkpoint(checkpoint)
    if result is not None:
        _save_result(result)
    if amount is not None or message is not None:
        _write_line(done, total, message)
    if meta:
        _write_meta(meta)


def _place(variable: str) -> str:
    """Return where the worker wants a file to be."""
    path = os.environ.get(variable)
    if not path:
        from stayer.core.errors import BadInput

        raise BadInput(
            f"this is not a task: {variable}, which a worker sets, is not set here. "
            "`stayer report` is for scripts that a worker runs"
        )
    return path


def _numbers(amount: str | None) -> tuple[float | None, float | None]:
    if amount is None:
        return None, None
    parts = _AMOUNT.fullmatch(amount)
    try:
        if parts is None:
            raise ValueError
        done = _number(parts[1])
        total = 100 if parts[3] else _number(parts[2]) if parts[2] else None
    except ValueError:
        raise click.UsageError(f"{amount!r} is not an amount: write 40, 40/100 or 40%") from None
    return done, total


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError
    return int(text) if text.isdecimal() else found


def _write_line(done: float | None, total: float | None, message: str | None) -> None:
    path = _place("STAYER_REPORT")
    try:
        reports.write(path, done, total, message)
    except OSError as error:
        _refuse(path, "written", error)


def _write_meta(written: tuple[str, ...]) -> None:
    from stayer.cli.submit import single_values
    from stayer.core.meta import check_names, merge

    fields = check_names("--meta", single_values("--meta", written))
    merge(None, fields)  # says what is wrong with it
    path = _place("STAYER_REPORT")
    try:
        reports.write_meta(path, fields)
    except OSError as error:
        _refuse(path, "written", error)


def _save_checkpoint(source: str) -> None:
    from stayer.core.codec import CHECKPOINT_LIMIT
    from stayer.task.checkpoints import Checkpoints

    path = _place("STAYER_CHECKPOINT")
    data = _read(source, CHECKPOINT_LIMIT)
    try:
        Checkpoints(path).save_bytes(data)
    except OSError as error:
        _refuse(path, "written", error)


def _save_result(source: str) -> None:
    from stayer.core import codec

    path = _place("STAYER_RESULT")
    if source == "-" or source.startswith("@"):
        data = _read(source.removeprefix("@"), codec.RESULT_LIMIT)
        codec.pack(data, "the result", codec.RESULT_LIMIT)
    else:
        codec.pack(codec.parse(source, "--result"), "the result", codec.RESULT_LIMIT)
        data = source.encode()
    try:
        atomic_files.replace(path, data)
    except OSError as error:
        _refuse(path, "written", error)


def _read(source: str, limit: int) -> bytes:
    """Read a file, or stdin; no more of it than it takes to see that it is too large."""
    if source == "-":
        return stdin().read(limit + 1)
    try:
        with open(source, "rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        _refuse(source, "read", error)


def _refuse(path: str, done: str, error: OSError) -> NoReturn:
    from stayer.core.errors import BadInput

    raise BadInput(f"{path} can't be {done}: {error.strerror}") from None
