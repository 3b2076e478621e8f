"""`add`: one task from options, or many from a file of JSON lines."""

from __future__ import annotations

from typing import Any

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.output import print_json, print_line
from stayer.cli.submit import is_given, submission_options, submit
from stayer.core import codec


@command(context_settings={"allow_interspersed_args": False})
@argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[--] [COMMAND [ARG]...]",
    help="The command that the task is to run, if that is what it does.",
)
@submission_options()
@click.option(
    "--jsonl",
    metavar="FILE|-",
    help="Submit many tasks: one JSON object a line, with the fields of a submission. -q, "
    "--owner and --retries are for lines that don't have them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the record, and whether it is fresh.")
def add(
    given: Given, words: tuple[str, ...], jsonl: str | None, as_json: bool, **options: Any
) -> int:
    """Submit a task, or many from a file, and print the id.

    `stayer add -q encode -- ffmpeg -i in.mp4 out.webm` runs a command, `stayer add -q mail --name
    send --data '{"to": "ann"}'` a function. A task with neither is for a listener of the queue. An
    id that exists is no error, and changes nothing. That of a deleted task is refused for 30 days.
    """
    if jsonl is not None:
        from stayer.cli.add_lines import add_lines

        return add_lines(given, jsonl, words, options, as_json)
    if not words and not any(map(is_given, options.values())) and not as_json:
        context = click.get_current_context()
        assert context is not None
        click.echo(context.get_help())
        return 2
    answer = submit(given, words, options)
    if as_json:
        print_json({**codec.record(answer.task), "fresh": answer.fresh})
    else:
        print_line(answer.task.id)
    return 0
