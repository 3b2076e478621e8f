"""`add`: one task from options, or many from a file of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.output import note, print_json, say, stdin
from stayer.cli.values import DURATION, ETA, complete_queue
from stayer.core import codec, submission, units
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import NewTask, Submitted, Value
from stayer.store import Store

READ_LIMIT = 16 * codec.PARAMETERS_LIMIT
"""Longer input is refused before it fills the memory; JSON may be written less densely than it
is kept.
"""


@command(context_settings={"allow_interspersed_args": False})
@argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[--] [COMMAND [ARG]...]",
    help="The command that the task is to run, if that is what it does.",
)
@click.option(
    "-q",
    "--queue",
    metavar="QUEUE",
    help="The queue. Default: the one that the configuration names.",
    shell_complete=complete_queue,
)
@click.option("--id", metavar="ID", help="Its id. One that is there already is not added again.")
@click.option("--name", metavar="NAME", help="The function or class that the task is to run.")
@click.option(
    "--data",
    metavar="JSON|-|@FILE",
    help="Its parameters: JSON, - to read it from stdin, or @ and a file.",
)
@click.option("--priority", type=int, default=0, metavar="N", help="Higher goes first. Default: 0.")
@click.option("--delay", type=DURATION, metavar="DURATION", help="Start it in 10m, 2h, 1d …")
@click.option("--eta", type=ETA, metavar="TIME", help="Start it at 20:30, 2026-11-15T20:30:00Z …")
@click.option("--cwd", metavar="DIR", help="Where the command is to run. Default: here.")
@click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable for the command; without a value, the one it has here. May be repeated.",
)
@click.option("--tag", multiple=True, metavar="TAG", help="A word to find it by. May be repeated.")
@click.option("--owner", metavar="OWNER", help="Whose task it is. Default: yours.")
@click.option("--hold", is_flag=True, help="Not to be taken until it is released.")
@click.option("--retries", type=int, metavar="N", help="How often to run it again if it fails.")
@click.option(
    "--jsonl",
    metavar="FILE|-",
    help="Submit many: one JSON object a line, named as in a record. -q, --owner and --retries "
    "are for lines that don't say.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the record, and whether it is fresh.")
def add(
    given: Given, words: tuple[str, ...], jsonl: str | None, as_json: bool, **options: Any
) -> None:
    """Submit a task, or many from a file, and print the id.

    `stayer add -q encode -- ffmpeg -i in.mp4 out.webm` is a task that runs a command, `stayer add
    -q mail --name send --data '{"to": "ann"}'` one that runs a function; one with neither is for
    whoever listens to the queue. The same id again is no error: what is there stays as it is.
    """
    if jsonl is not None:
        from stayer.cli.bulk import add_lines

        add_lines(given, jsonl, words, options, as_json)
        return
    new = _new_task(given, words, options)
    store = given.store()
    answer = store.submit([new])[0]
    if not answer.fresh:
        note(f"task {new.id} is already there ({answer.task.state})")
        if other := difference(store, new, answer):
            note(f"warning: it is {other}; it was left as it is")
    if as_json:
        print_json({**codec.record(answer.task), "fresh": answer.fresh})
    else:
        say(answer.task.id)


def _new_task(given: Given, words: Sequence[str], options: Mapping[str, Any]) -> NewTask:
    if options["eta"] is not None and options["delay"] is not None:
        raise BadInput("give either --eta or --delay, not both")
    config = given.config()
    eta = options["eta"]
    return submission.new_task(
        queue=config.queue if options["queue"] is None else options["queue"],
        parameters=_parameters(options["data"]),
        id=options["id"],
        name=options["name"],
        command=words or None,
        cwd=working_directory(options["cwd"]) if words or options["cwd"] else None,
        env=_environment(options["env"]),
        priority=options["priority"],
        owner=config.owner if options["owner"] is None else options["owner"],
        tags=options["tag"],
        # By the store's clock, so that `+10m` is ten minutes wherever this clock stands.
        eta=None if eta is None else units.moment(eta, given.store().now()),
        delay=options["delay"],
        held=options["hold"],
        retries=config.retries if options["retries"] is None else options["retries"],
    )


def working_directory(asked: str | None) -> str:
    """Where a command is to run, as an absolute path."""
    try:
        return os.path.abspath(asked or os.getcwd())
    except FileNotFoundError:
        raise BadInput("this directory is gone: say where to run with --cwd") from None


def difference(store: Store, new: NewTask, answer: Submitted) -> str | None:
    """In what the task that is there is another than the one that was asked for."""
    there = answer.task
    if there.queue != new.queue:
        return f"in queue {there.queue}, not {new.queue}"
    if there.parameters == new.parameters or store.get([new.id])[0] is None:
        return None  # the parameters of a purged task are not known any more
    return "with other parameters"


def _parameters(data: str | None) -> Value:
    if data is None:
        return None
    if data == "-":
        return codec.parse(_limited(stdin().read(READ_LIMIT + 1)), "--data -")
    if data.startswith("@"):
        return codec.parse(_limited(_read(data[1:])), f"--data {data}")
    return codec.parse(data, "--data")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(READ_LIMIT + 1)
    except OSError as error:
        raise BadInput(f"--data: {path} can't be read: {error.strerror}") from None


def _limited(text: bytes) -> bytes:
    if len(text) > READ_LIMIT:
        raise TooLarge(
            f"the parameters are over {units.format_size(READ_LIMIT)}: store the data elsewhere "
            "and pass where it is"
        )
    return text


def _environment(asked: Sequence[str]) -> dict[str, str] | None:
    variables = {}
    for entry in asked:
        name, separator, value = entry.partition("=")
        if not name:
            raise BadInput(f"--env {entry!r}: write NAME or NAME=VALUE")
        if not separator:
            if name not in os.environ:
                raise BadInput(f"--env {name}: it is not set here: set it, or write {name}=VALUE")
            value = os.environ[name]
        variables[name] = value
    return variables or None
