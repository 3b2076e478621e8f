"""Writes the reference of the command line from the commands: `docs/reference/cli.md`.

`python docs/cli_reference.py` writes it, `--check` only says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from stayer.cli.command import shared_options
from stayer.cli.main import cli

PAGE = Path(__file__).parent / "reference" / "cli.md"

OPENING = """\
# Command line

<!-- Written by docs/cli_reference.py from the commands themselves. -->

`stayer COMMAND --help` says the same. Options that may be repeated are given so: `-q a -q b`.
Durations are written `90s`, `10m`, `1h30m`, `2d`; times `20:30`, `2026-11-15 20:30` (local),
`2026-11-15T20:30:00Z`, `+10m`. Where an id is asked for, the beginning of one that Stayer made
up is enough, if no other begins so: at least four letters of it, where something is changed.

Results go to stdout, everything else to stderr. With `--json` there is nothing but JSON on stdout:
[the record](json.md) has the same names as in Python and in the tables, times are RFC 3339 in UTC,
bytes are `{"base64": "…"}`.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed: a task that was waited for, a check of `doctor`; or the answer to a question was no |
| 2 | bad input, an unknown id, or a store that can't be used as it is |
| 3 | a task that was waited for was cancelled |
| 4 | the store, or a part of it, can't be reached |
| 5 | a worker that was told to drain has finished what it had |
| 124 | the time was over |
| 130 | interrupted (Ctrl-C) |
| 141 | nobody read the output to its end |

`run` ends as its command does: with its exit code, or 128 + N if signal N killed it.

Of several, the worst counts: 4, 2, 124, 1, 3, 0. An error is one line on stderr that begins with
`stayer:`.

## Options of every command

Before the command or after it; after it counts more.

"""


def main() -> int:
    """Write the page, or compare it."""
    page = "\n".join(_page()).rstrip() + "\n"
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PAGE} is out of date: run `python docs/cli_reference.py`", file=sys.stderr)
    return 1


def _page() -> Iterator[str]:
    yield OPENING.rstrip("\n") + "\n"
    context = click.Context(cli, info_name="stayer")
    own = [parameter for parameter in cli.get_params(context) if not _shared(parameter)]
    yield from _table([*shared_options(), *own])
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield from _command(command, context, name, "##")


def _command(
    command: click.Command, parent: click.Context, name: str, heading: str
) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{heading} {context.command_path}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield " ".join(paragraph.split()) + "\n"
    yield from _table([entry for entry in command.params if not _shared(entry)])
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _command(found, context, inner, heading + "#")


def _shared(parameter: click.Parameter) -> bool:
    return parameter.name in ("store", "config", "no_color", "help")


def _table(parameters: list[click.Parameter]) -> Iterator[str]:
    if parameters:
        yield "| | |\n|---|---|"
        yield from (f"| {_name(entry)} | {_help(entry)} |" for entry in parameters)
        yield ""


def _name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return _code(parameter.metavar or parameter.human_readable_name)
    value = f" {parameter.metavar}" if parameter.metavar else ""
    *others, last = (option for option in parameter.opts)
    return ", ".join([*map(_code, others), _code(last + value)])


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _help(parameter: click.Parameter) -> str:
    said = " ".join(str(getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    needed = isinstance(parameter, click.Option) and parameter.required
    return f"{said} Needed." if needed else said


if __name__ == "__main__":
    sys.exit(main())
