"""As `tests/cli/test_add.py`, over HTTP: nobody knows here which directories a worker has."""

from pathlib import Path

from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.cli.test_add import *  # noqa: F403


def test_a_command_keeps_its_words_and_where_it_was_submitted(  # type: ignore[no-redef]
    stayer: Here, store: Store, folder: Path
) -> None:
    stayer("add", "--id", "t", "-q", "q", "--", "ffmpeg", "-i", "a b", "--id", "").works()

    task = control.get(store, "t")
    assert task.command == ("ffmpeg", "-i", "a b", "--id", "")
    assert task.cwd is None


def test_a_relative_cwd_becomes_absolute(stayer: Here, store: Store, folder: Path) -> None:  # type: ignore[no-redef]
    """It does not: it is relative to where the worker runs."""
    stayer("add", "--id", "t", "--cwd", "below", "--", "ls").works()

    assert control.get(store, "t").cwd == "below"


def test_a_directory_that_is_gone_is_said(apart: Apart, folder: Path) -> None:  # type: ignore[no-redef]
    """Nobody asks for it."""
    leave = ("sh", "-c", f'rmdir {folder} && exec "$@"', "sh")

    apart("add", "--", "ls", before=leave).works()
