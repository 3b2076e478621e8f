"""Every command and every option is documented, and the page is that of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stayer.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def commands(parent: click.Context) -> Iterator[tuple[str, click.Command]]:
    """All commands below, by their full name."""
    assert isinstance(parent.command, click.Group)
    for name in parent.command.list_commands(parent):
        command = parent.command.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        yield context.command_path, command
        if isinstance(command, click.Group):
            yield from commands(context)


COMMANDS = dict(commands(click.Context(cli, info_name="stayer")))


def section(name: str) -> str:
    """What the page says about a command, up to the next heading."""
    _, found, rest = PAGE.partition(f"# {name}\n")
    assert found, f"{name} is not documented"
    return rest.partition("\n#")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    everywhere = PAGE.partition("## Options of every command")[2].partition("\n## ")[0]
    said = section(name) + everywhere
    command = COMMANDS[name]

    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"
        if isinstance(parameter, click.Option):
            for option in parameter.opts:
                assert f"`{option}`" in said or f"`{option} " in said, f"{name} {option}"


def test_every_exit_code_is_documented() -> None:
    for code in (0, 1, 2, 3, 4, 124, 130, 141):
        assert f"| {code} |" in PAGE
