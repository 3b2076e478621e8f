"""`report`: what a shell script within a task has to say. Writes files, and knows no store."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
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
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value that changes over time, such as loss=0.31. May be repeated.",
)
@click.option("--x", type=float, metavar="NUMBER", help="What the metrics are for: an epoch.")
@click.option(
    "--step", metavar="NAME", help="What begins now; the step before it, if there is one, ends."
)
def report(
    _: Given,
    amount: str | None,
    message: str | None,
    checkpoint: str | None,
    result: str | None,
    meta: tuple[str, ...],
    metrics: tuple[str, ...],
    x: float | None,
    step: str | None,
) -> None:
    """Report progress, metrics, a result or a checkpoint from inside a task.

    For scripts: `stayer report 40/100 --message encoding`. It works only in a task,
    where the worker has set the variables that it needs.
    """
    if (amount, message, checkpoint, result, step) == (None,) * 5 and not (metrics or meta):
        raise click.UsageError("there is nothing to report: say how far it is, for example 40/100")
    lines = [*_metric_lines(metrics, x), *_step_lines(step)]
    done, total = _numbers(amount)
    if checkpoint is not None:
        _save_checkpoint(checkpoint)
    if result is not None:
        _save_result(result)
    if amount is not None or message is not None:
        lines.append(reports.progress_line(done, total, message))
    if lines:
        _write(lines)
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


def _metric_lines(metrics: tuple[str, ...], x: float | None) -> Iterator[dict[str, object]]:
    values: dict[str, float | None] = {}
    for written in metrics:
        name, equals, value = written.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = None
        if not equals or not name or number is None:
            raise click.UsageError(f"--metric {written!r}: write a name and a number: loss=0.31")
        values[name] = reports.number(number)
    if values:
        of = {} if x is None else {"x": reports.number(x)}
        yield {"metric": values, **of, "at": reports.wall_clock()}


def _step_lines(step: str | None) -> Iterator[dict[str, object]]:
    if step is not None:
        yield {"step": step, "at": reports.wall_clock()}


def _write(lines: list[dict[str, object]]) -> None:
    path = _place("STAYER_REPORT")
    try:
        reports.write(path, lines)
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
