"""Pages that name many commands name ones that there are, with options that they have."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from stayer.cli.main import cli
from tests.docs.pages import text

PAGES = (
    "how-to/back-up-and-restore.md",
    "how-to/rotate-tokens-and-secrets.md",
    "how-to/troubleshoot.md",
    "how-to/upgrade.md",
    "how-to/watch-with-prometheus.md",
    "explanation/coming-from-other-queues.md",
)
NAMED = re.compile(r"`(?:/opt/[\w/-]+/)?stayer ([a-z][^`]*)`|^\s*\$ (?:/\S+/)?stayer (.*)$", re.M)


def commands(page: str) -> list[list[str]]:
    found = (one or other for one, other in NAMED.findall(text(page)))
    return [shlex.split(each.replace("…", "")) for each in found]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_commands_and_options_that_there_are(page: str) -> None:
    named = commands(page)
    assert named
    for words in named:
        command: click.Command | None = cli
        rest = words
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            command = command.get_command(None, rest[0])  # type: ignore[arg-type]
            rest = rest[1:]
        assert command is not None, words
        known = {option for each in command.params for option in (*each.opts, "--store")}
        given = rest[: rest.index("--")] if "--" in rest else rest
        unknown = {
            word for word in given if re.fullmatch(r"-[a-z]|--[a-z-]+", word) and word not in known
        }
        assert not unknown, words
