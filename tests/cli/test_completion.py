"""Completing words in a shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stayer.core.model import STATES
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import new, register, submit


@pytest.fixture(autouse=True)
def words(store: Store) -> None:
    submit(store, new("abc", queue="encode"), new("abd", queue="mail"), new("xyz", queue="emit"))
    register(store, "host.1.2.3")


def offered(stayer: Here, *line: str) -> list[str]:
    """What the shell would offer for the last word of the line."""
    done = stayer(
        _STAYER_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(("stayer", *line)),
        COMP_CWORD=str(len(line)),
    )
    assert (done.code, done.err) == (0, "")
    return sorted(row.partition(",")[2] for row in done.lines if row)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (("sho",), ["show"]),
        (("worke",), ["worker", "workers"]),
        (("show", "ab"), ["abc", "abd"]),
        (("cancel", "abc", "x"), ["xyz"]),
        (("ls", "-q", "e"), ["emit", "encode"]),
        (("add", "-q", "m"), ["mail"]),
        (("queues", "drop", "enc"), ["encode"]),
        (("workers", "drop", "h"), ["host.1.2.3"]),
        (("ls", "--state", "c"), sorted(state for state in STATES if state.startswith("c"))),
        (("ls", "--js"), ["--json", "--jsonl"]),
        (("show", "nothing-like-it"), []),
    ],
)
def test_it_offers_what_would_fit(stayer: Here, line: tuple[str, ...], expected: list[str]) -> None:
    assert offered(stayer, *line) == expected


def test_it_asks_the_store_that_the_line_names(stayer: Here, folder: Path) -> None:
    stayer("--store", "sqlite:///other.db", "add", "--id", "other").works()

    assert offered(stayer, "--store", "sqlite:///other.db", "show", "") == ["other"]


def test_it_makes_no_store_and_never_complains(stayer: Here, folder: Path) -> None:
    assert offered(stayer, "--store", "sqlite:///none.db", "show", "a") == []
    assert offered(stayer, "--store", "nonsense", "show", "a") == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(stayer: Here, shell: str) -> None:
    script = stayer("completion", shell).works().out

    assert "_STAYER_COMPLETE" in script
    checker = shutil.which(shell)
    if checker:
        subprocess.run([checker, "-n"], input=script, text=True, check=True)


def test_an_unknown_shell_is_one_line(stayer: Here) -> None:
    stayer("completion", "cmd").refuses("'cmd'", "bash")
    stayer("completion").refuses("completion --help")
