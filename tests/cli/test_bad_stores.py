"""Stores that can't be used: one line that says what to do, and nothing is changed."""

from __future__ import annotations

import base64
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stayer.cli import VERBS
from stayer.store import Store
from stayer.stores.sql.sqlite import database
from tests.cli.running import Apart, Here, Outcome
from tests.contract.builders import fill

COMMANDS = {
    "add": ["add", "--name", "f"],
    "run": ["run", "--detach", "true"],
    "ls": ["ls"],
    "log": ["log", "t"],
    "top": ["top"],
    "drain": ["drain", "w"],
    "show": ["show", "t"],
    "wait": ["wait", "t"],
    "cancel": ["cancel", "t"],
    "retry": ["retry", "t"],
    "clone": ["clone", "t"],
    "edit": ["edit", "t", "--priority", "1"],
    "sweep": ["sweep", "ls"],
    "hold": ["hold", "-q", "q", "--yes"],
    "release": ["release", "t"],
    "compare": ["compare", "t"],
    "complete": ["complete", "t"],
    "fail": ["fail", "t"],
    "delete": ["delete", "t"],
    "purge": ["purge", "--older", "1d"],
    "pause": ["pause", "-q", "q"],
    "resume": ["resume", "-q", "q"],
    "signal": ["signal", "t", "USR1"],
    "stack": ["stack", "t"],
    "set": ["set", "t", "--time-limit", "1h"],
    "cron": ["cron", "ls"],
    "flow": ["flow", "ls"],
    "explain": ["explain", "t"],
    "stats": ["stats"],
    "queues": ["queues"],
    "notices": ["notices"],
    "failures": ["failures"],
    "workers": ["workers"],
    "init": ["init"],
    "backup": ["backup", "copy.db"],
    "move": ["move", "--to", "sqlite:///elsewhere.db"],
}
"""Every command that needs the store."""
OTHERS = {
    "code", "completion", "config", "doctor", "mcp", "rehearse", "report", "serve", "token", "up",
    "worker",
}  # fmt: skip
"""Those that don't, or that stay: they have tests of their own."""

every_command = pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)


def test_no_command_is_forgotten_here() -> None:
    also = {"restore"}  # which names its store by --to
    assert set(VERBS) == {*COMMANDS, *OTHERS, *also}


@every_command
def test_a_file_that_is_not_a_database(stayer: Here, tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "stayer.db"
    file.write_text("precious text " * 1000)

    stayer(*arguments).refuses("stayer.db", "not a database")

    assert file.read_text() == "precious text " * 1000


@every_command
def test_a_folder_that_is_missing(stayer: Here, folder: Path, arguments: list[str]) -> None:
    stayer("--store", "sqlite:///sub/tasks.db", *arguments).refuses(f"no folder {folder}/sub")

    assert list(folder.iterdir()) == []


@every_command
def test_a_folder_in_the_place_of_the_file(
    stayer: Here, folder: Path, arguments: list[str]
) -> None:
    stayer("--store", f"sqlite:///{folder}", *arguments).refuses("it is a folder")

    assert list(folder.iterdir()) == []


@every_command
def test_a_store_from_a_newer_version(
    stayer: Here, store: Store, tmp_path: Path, arguments: list[str]
) -> None:
    [task] = fill(store, 1)
    with sqlite3.connect(tmp_path / "stayer.db") as file:
        file.execute("UPDATE stayer_meta SET value = '99' WHERE key = 'schema'")
    file.close()

    stayer(*arguments).refuses("newer Stayer", "upgrade")

    assert [found is not None for found in store.get([task])] == [True]
    assert len(store.queues()) == 1


def test_a_database_of_somebody_else_is_left_alone(stayer: Here, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "stayer.db") as file:
        file.execute("CREATE TABLE mine (x)")
        file.execute("CREATE TABLE stayer_meta (other)")
    file.close()

    done = stayer("ls")

    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments", [["add", "--name", "f"], ["pause", "-q", "q"], ["purge", "--older", "1d"]]
)
def test_a_store_that_somebody_keeps_locked(
    stayer: Here,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    fill(store, 1)
    monkeypatch.setattr(database, "BUSY", 0.01)
    holder = sqlite3.connect(tmp_path / "stayer.db")
    holder.execute("BEGIN IMMEDIATE")

    stayer(*arguments).refuses("locked by another process", code=4)

    holder.close()
    assert len(stayer("ls", "--ids").works().lines) == 1


def without_powers(apart: Apart, *arguments: str) -> Outcome:
    """Run as somebody for whom permissions count; root loses its powers first."""
    if os.geteuid() != 0:
        return apart(*arguments)
    tool = shutil.which("setpriv")
    if tool is None:
        pytest.skip("NOT TESTED: permissions, because this is root and setpriv is missing")
    return apart(*arguments, before=[tool, "--bounding-set=-all", "--inh-caps=-all"])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize(
    "arguments", [["add", "--name", "f"], ["ls"], ["init"], ["pause", "-q", "q"]]
)
def test_a_file_that_may_not_be_written(
    apart: Apart, store: Store, tmp_path: Path, arguments: list[str]
) -> None:
    # Given a store that is only to be read
    fill(store, 1)
    store.close()
    before = contents(tmp_path)
    for name in before:
        (tmp_path / name).chmod(0o444)
    tmp_path.chmod(0o555)

    # When it is used
    try:
        done = without_powers(apart, *arguments)
    finally:
        tmp_path.chmod(0o755)

    # Then it is refused, or read, but never changed
    if arguments != ["ls"] or done.code != 0:
        done.refuses("permissions")
    assert contents(tmp_path) == before


def test_a_file_that_may_not_be_read(apart: Apart, store: Store, tmp_path: Path) -> None:
    store.close()
    (tmp_path / "stayer.db").chmod(0o000)

    without_powers(apart, "ls").refuses("stayer.db")


def test_a_default_folder_that_can_not_be_made(apart: Apart) -> None:
    place = {"STAYER_STORE": "", "XDG_DATA_HOME": "/proc"}

    apart("ls", environment=place).refuses("/proc/stayer")


def test_a_store_elsewhere_needs_no_home(
    stayer: Here, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a user id that the system does not know, in a container
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)

    stayer("init", HOME="").works()
    stayer("init", HOME="", STAYER_STORE="").refuses("no home directory", "STAYER_STORE")


def limited() -> None:
    """No file may grow over 400 kB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


def dense(size: int) -> str:
    """JSON of about this size that can't be compressed much."""
    return f'"{base64.b64encode(os.urandom(size * 3 // 4)).decode()}"'


def test_a_file_that_may_not_grow(apart: Apart, store: Store) -> None:
    [task] = fill(store, 1)

    done = apart("add", "--data", "-", input=dense(900_000), preexec_fn=limited)

    done.refuses("nothing was changed")

    assert apart("ls", "--ids").works().lines == [task]


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A disk of 1 MB, where that may be made."""
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("NOT TESTED: a full disk, because none may be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(stayer: Here, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk"):
        # Given a store on a disk with no room left
        url = f"sqlite:///{tmp_path}/disk/tasks.db"
        stayer("--store", url, "add", "--id", "first").works()
        rest = tmp_path / "disk/rest"
        with rest.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

        # When more is submitted than fits
        more = ("--data", "-")
        done = stayer("--store", url, "add", "--id", "second", *more, input=dense(900_000))

        # Then it is refused, and the rest is as it was
        done.refuses("disk", "full", "nothing was changed")
        rest.unlink()
        assert stayer("--store", url, "ls", "--ids").works().lines == ["first"]


def test_a_slip_in_the_name_makes_no_new_store(stayer: Here, tmp_path: Path) -> None:
    slip = tmp_path / "tyop.db"
    stayer("ls", "--store", f"sqlite:///{slip}").refuses("there is no store", "stayer init")
    assert not slip.exists()
    stayer("add", "--name", "f", "--store", f"sqlite:///{slip}").works()
    stayer("ls", "--store", f"sqlite:///{slip}").works()


@pytest.mark.parametrize("package", ["redis", "hiredis"])
@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix", "redis+sentinel", "redis+cluster"])
def test_a_store_whose_package_is_missing_says_what_to_install(
    stayer: Here, scheme: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("stayer.stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [package, *(each for each in sys.modules if each.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)

    stayer("ls", "--store", f"{scheme}://localhost/0").refuses(
        f"needs the package {package}", "pip install '.[redis]' in a checkout"
    )


@pytest.mark.parametrize(
    "url",
    ["sqlite://:memory:", "sqlite:/:memory:", "sqlite://", "sqlite:",
     "sqlite:///", "sqlite:////:memory:", "sqlite:///:MEMORY:", "sqlite:///%3Amemory%3A",
     "sqlite:///file::memory:?cache=shared", "sqlite:///file:x?mode=memory",
     "sqlite:///:memory:?synchronous=full"],
)  # fmt: skip
def test_what_only_resembles_a_store_in_memory_makes_no_file(
    stayer: Here, folder: Path, url: str
) -> None:
    stayer("--store", url, "add", "--name", "f").refuses("sqlite:///")
    assert not list(folder.iterdir())
    if url.lower().startswith("sqlite:///:memory:"):
        stayer("--store", url, "ls").refuses("is written memory:", "the path of a file")


@pytest.mark.parametrize("url", ["memory:", "memory:jobs", "sqlite:///:memory:"])
def test_the_command_line_has_no_store_in_memory(stayer: Here, folder: Path, url: str) -> None:
    for command in (["add", "--name", "f"], ["ls"], ["worker", "--allow-commands"]):
        stayer("--store", url, *command).refuses("seen by one process alone", "sqlite:///path.db")
    assert not list(folder.iterdir())


def test_nothing_is_moved_to_a_store_in_memory(stayer: Here) -> None:
    stayer("add", "--name", "f")
    stayer("move", "--to", "memory:").refuses("seen by one process alone")
