"""A command starts quickly: it imports what it needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from inspect import unwrap

import pytest

from stayer.cli import VERBS
from stayer.cli.main import cli
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.contract.builders import fill

SLOW = {"asyncio", "importlib.metadata", "email.message", "sqlalchemy", "pydantic", "http.client"}
TABLES = {"rich.table", "rich.console", "rich.text"}
PROBE = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from stayer.cli import main
main()
"""


def imported(apart: Apart, *arguments: str) -> set[str]:
    """The modules that the command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        env={**apart.environment, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def commands(modules: set[str]) -> set[str]:
    """Those of them that hold commands."""
    return modules & {f"stayer.cli.{name}" for name in VERBS}


def test_help_imports_no_command_and_no_store(apart: Apart) -> None:
    modules = imported(apart, "--help")

    assert commands(modules) == set()
    assert not modules & (SLOW | {"stayer.stores", "sqlite3", "msgspec"})


def test_the_version_imports_almost_nothing(apart: Apart) -> None:
    assert not imported(apart, "--version") & (SLOW | TABLES | {"msgspec", "sqlite3"})


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--json"],
        ["ls", "--jsonl"],
        ["ls", "--ids"],
        ["show", "task", "--json"],
        ["add", "--name", "f"],
        ["add", "--json"],
        ["hold", "task"],
        ["queues", "--json"],
        ["workers", "--json"],
    ],
)
def test_what_draws_nothing_imports_no_tables(
    apart: Apart, store: Store, arguments: list[str]
) -> None:
    [task] = fill(store, 1)

    modules = imported(apart, *(task if word == "task" else word for word in arguments))

    assert commands(modules) == {f"stayer.cli.{arguments[0]}"}
    assert not modules & (SLOW | TABLES)


def test_a_table_imports_no_more_than_a_table(apart: Apart, store: Store) -> None:
    fill(store, 1)

    modules = imported(apart, "ls")

    assert commands(modules) == {"stayer.cli.ls"}
    assert not modules & (SLOW | {"rich.live", "rich.progress", "rich.markdown", "pygments"})


@pytest.mark.parametrize("name", VERBS)
def test_a_command_is_in_the_module_of_its_name_and_says_what_the_list_says(name: str) -> None:
    context = cli.make_context("stayer", ["--help"], resilient_parsing=True)
    command = cli.get_command(context, name)

    assert command is not None
    assert command.help is not None
    assert command.name == name
    assert command.callback is not None
    assert unwrap(command.callback).__module__ == f"stayer.cli.{name}"
    assert command.help.partition("\n\n")[0] == VERBS[name].help


@pytest.mark.parametrize("name", VERBS)
def test_every_command_has_help(stayer: Here, name: str) -> None:
    shown = stayer(name, "--help").works().out

    assert f"Usage: stayer {name}" in shown
    assert "--store" in shown


def test_a_word_that_is_no_command_gets_a_hint(stayer: Here) -> None:
    stayer("lst").refuses("no command 'lst'", "stayer ls")
    stayer("frobnicate").refuses("no command 'frobnicate'", "stayer --help")
    stayer("--frobnicate").refuses("--frobnicate")
