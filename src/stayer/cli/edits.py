"""What `edit`, `retry` and `clone` share: the options that change a task that is there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rich_click as click

from stayer.cli.command import Command, Decorated, Given
from stayer.cli.output import note
from stayer.cli.submit import said_fields, single_values, submission_options
from stayer.core.errors import BadInput
from stayer.core.fields import EDITABLE, SUBMISSION
from stayer.core.model import Task
from stayer.core.submit.edits import Edits
from stayer.store import ReadStore

CHANGES = "Changes"


class CommandWithWords(Command):
    """A command with ids in front of `--`, and the words of another command behind it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: tuple[str, ...] = ()
        if "--" in args:
            at = args.index("--")
            args, words = args[:at], tuple(args[at + 1 :])
            if not words:
                raise click.UsageError(
                    "there is no command after --: write one, or leave it out", ctx
                )
        rest = super().parse_args(ctx, args)
        ctx.params["words"] = words
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND [ARG]...]"]


def edit_options(
    *, may_change: Sequence[str] = EDITABLE, leave_out: Sequence[str] = ()
) -> Callable[[Decorated], Decorated]:
    """Add an option for each field that may be changed, `-p` and `--clear`; the function is given
    them as `changes`.
    """
    names = [name for name in may_change if name not in leave_out]
    not_here = [name for name in SUBMISSION if name not in names]
    clear = click.option(
        "--clear",
        "cleared",
        multiple=True,
        type=click.Choice([name.replace("_", "-") for name in names]),
        metavar="FIELD",
        help="Take this back to its default, such as eta or time-limit. May be repeated.",
    )
    add_options = submission_options(leave_out=not_here, without_defaults=True)

    def decorate(function: Decorated) -> Decorated:
        return add_options(clear(function))

    return decorate


def edits_from(
    given: Given, words: Sequence[str], options: Mapping[str, Any], cleared: Sequence[str]
) -> Edits:
    """Gather what is to be different, by these words and options."""
    fields = said_fields(given, words, {**options, "set_parameters": ()})
    for name in (each.replace("-", "_") for each in cleared):
        if name in fields:
            raise BadInput(f"--clear {name.replace('_', '-')}: its option says something else")
        fields[name] = None
    return Edits(fields=fields, parameters=single_values("-p", options["set_parameters"]))


def task_before(store: ReadStore, id: str, edits: Edits) -> Task | None:
    """Return the task as it is before these edits, if `hint_at_arguments` will ask."""
    if not edits.parameters or "command" in edits.fields:
        return None
    return store.get([id])[0]


def hint_at_arguments(before: Task | None, edits: Edits) -> None:
    """Who gives a command a parameter that it never had most likely means one of its arguments:
    only those of a sweep follow the parameters.
    """
    if before is None or before.command is None:
        return
    had = before.parameters if isinstance(before.parameters, dict) else {}
    if added := [name for name in edits.parameters if name not in had]:
        note(
            f"warning: it still runs {shlex.join(before.command)}: parameters "
            f"({', '.join(added)}) reach a command on its standard input. To change its arguments, "
            "write the command, after --"
        )
