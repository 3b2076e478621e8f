"""`rehearse`: kill a task again and again, and compare what comes of it."""

from __future__ import annotations

import os
import re
import sys

import rich_click as click
from msgspec import to_builtins

from stayer.cli.command import Given, argument, command
from stayer.cli.output import note, print_json, print_line
from stayer.cli.submit import parameters_of
from stayer.core.errors import BadInput

_FUNCTION = re.compile(r"[\w.]+:[\w.]+")


@command()
@argument(
    "words",
    nargs=-1,
    metavar="MODULE:FUNCTION|-- COMMAND…",
    type=click.UNPROCESSED,
    help="A function, or a command and its arguments.",
)
@click.option("--data", metavar="JSON|@FILE|-", help="Its parameters.")
@click.option(
    "-p",
    "--param",
    "set_parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set one of its parameters: JSON, or else text. May be repeated.",
)
@click.option(
    "--points",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="Kill it after this many different checkpoints at most. Default: 20.",
)
@click.option(
    "--random",
    type=click.IntRange(min=0),
    default=3,
    metavar="N",
    help="Kill it this many times at random moments. Default: 3.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="For other random moments.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Compare this file too. It is deleted before each run! May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all runs, as JSON.")
def rehearse(
    given: Given,
    words: tuple[str, ...],
    data: str | None,
    set_parameters: tuple[str, ...],
    points: int,
    random: int,
    seed: int,
    files: tuple[str, ...],
    as_json: bool,
) -> int:
    """Test that a task survives kills: run it, kill it, resume it, compare.

    It runs here, without a worker: once undisturbed, then killed after each checkpoint, after all
    of them in turn, and at random. Each run goes on from what was saved, and must end with the same
    result. 0: they did. 1: one did not.
    """
    from stayer.task.load_code import load_function
    from stayer.testing.rehearsal import Run, rehearse

    if not words:
        raise BadInput("say what to rehearse: stayer rehearse MODULE:FUNCTION, or -- COMMAND")
    parameters = parameters_of(data, set_parameters)

    def show(run: Run) -> None:
        if not as_json:
            tries = f"{run.attempts} attempts" if run.attempts > 1 else "1 attempt"
            print_line(f"killed {run.plan}: {run.problem or 'the same result'} ({tries})")

    is_function = len(words) == 1 and _FUNCTION.fullmatch(words[0])
    if is_function:
        sys.path.insert(0, os.getcwd())  # as a worker finds it
        try:
            task = load_function(words[0])
        except ImportError as error:
            raise BadInput(str(error)) from None
    done = rehearse(
        task if is_function else words, parameters, points=points, random=random, seed=seed,
        files=files, check=False, on_run=show,
    )  # fmt: skip
    if as_json:
        print_json({"checkpoints": done.checkpoints, "runs": to_builtins(done.runs)})
    elif not done.checkpoints:
        note("it saved no checkpoint: each attempt began from the start")
    return 1 if done.problems else 0
