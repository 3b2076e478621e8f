"""What the page tells people to type: every command is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from playwright.sync_api import Page

import stayer
from stayer.cli.main import cli
from tests.ui.browsing import Tabs

PACKAGE = Path(stayer.__file__).parent
SOURCES = [
    path
    for folder in ("ui", "http/assets")
    for path in sorted((PACKAGE / folder).rglob("*"))
    if path.suffix in (".js", ".html")
]
ODD = 'it\'s -q "odd" $x'


def parsed(line: str) -> click.Context:
    """The context of the command that a shell would call with this line."""
    program, *words = shlex.split(line)
    assert program == "stayer"
    context = cli.make_context(program, words)
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, words = context.command.resolve_command(context, rest)
        assert command is not None, line
        context = command.make_context(name, words, parent=context)
    return context


@pytest.fixture
def module(looking: Tabs) -> Page:
    page = looking.open("now")
    page.evaluate("async () => (window.it = await import('./ui/commands.js'))")
    return page


def commands(page: Page, argument: str) -> dict[str, str]:
    """All of them, those that are about something with this."""
    found: dict[str, str] = page.evaluate(
        """argument => Object.fromEntries(Object.entries(it.COMMANDS)
          .map(([name, each]) => [name, typeof each === "function" ? each(argument) : each]))""",
        argument,
    )
    return found


@pytest.mark.parametrize("argument", ["plain", ODD, "-begins"])
def test_every_command_is_taken_by_the_command_line(module: Page, argument: str) -> None:
    found = commands(module, argument)
    assert len(found) > 5
    contexts = {name: parsed(line) for name, line in found.items()}

    assert contexts["show"].params["id"] == contexts["showAll"].params["id"] == argument
    assert contexts["workerFor"].params["queues"] == (argument,)
    assert contexts["workerFor"].params["allow_commands"] is True
    # What a task is to do is a command, not data that stands in its place
    for name in ("run", "runWithProgress", "add"):
        assert re.fullmatch(r"[a-z]+", contexts[name].params["words"][0]), found[name]


def test_no_command_is_written_elsewhere() -> None:
    """Those with options are in commands.js; others are only named, and are there to be named."""
    for path in SOURCES:
        if path.name == "commands.js":
            continue
        text = re.sub(r"^\s*(//|\*|/\*\*).*$", "", path.read_text(), flags=re.MULTILINE)
        for line in re.findall(r"stayer ((?:[a-z]+ ?)+ ?-{1,2}\S+)", text):
            pytest.fail(f"{path.name}: stayer {line}")
        for line in re.findall(r"[`>\"]stayer ([a-z]+(?: [a-z]+)?)[`<\"]", text):
            assert named(line), (path.name, line)


def named(line: str) -> bool:
    """Whether there is such a command."""
    command: click.Command | None = cli
    context = cli.make_context("stayer", ["--help"], resilient_parsing=True)
    for word in line.split():
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
        if command is None:
            return False
    return True


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("make report", ["make", "report"]),
        ("  sh -c 'a | b'  ", ["sh", "-c", "a | b"]),
        ('echo "a \\"b\\" c" d\\ e', ["echo", 'a "b" c', "d e"]),
        ("--x='1 2'", ["--x=1 2"]),
        ("echo ''", ["echo", ""]),
    ],
)
def test_a_line_is_taken_apart_as_a_shell_does(module: Page, line: str, words: list[str]) -> None:
    assert shlex.split(line) == words
    assert module.evaluate("line => it.words(line)", line) == words
