"""What a worker with an allow-list executes: just the file that the list names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stayer.core.errors import BadConfig
from stayer.worker.allowed_programs import NotAllowed, look_up, resolve_program
from stayer.worker.handlers import configure


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Tools, and somebody's home beside them; `tmp_path` itself may be behind a link."""
    place = tmp_path.resolve()
    for name in ("tools/cut", "tools/sub/deep", "bin/sh", "home/cut", "home/evil"):
        make(place / name)
    (place / "tools/shell").symlink_to(place / "bin/sh")
    (place / "tools/clip").symlink_to(place / "tools/cut")
    (place / "alias").symlink_to(place / "tools")
    (place / "home/link").symlink_to(place / "tools/cut")
    (place / "home/folder").symlink_to(place / "tools")
    return place


def found(here: Path, word: str, *patterns: str, folder: str = "home") -> str:
    """What is executed, below `here`."""
    full = [str(here / each) if "/" in each else each for each in patterns]
    word = word.replace("HERE", str(here))
    path, _ = resolve_program(word, full, f"{here}/tools:/usr/bin", str(here / folder))
    return os.path.relpath(path, here)


@pytest.mark.parametrize(
    ("word", "pattern", "executed"),
    [
        ("HERE/tools/cut", "tools/*", "tools/cut"),
        ("HERE/tools/clip", "tools/*", "tools/clip"),
        ("HERE/tools/./cut", "tools/*", "tools/cut"),
        ("HERE//tools//cut", "tools/cut", "tools/cut"),
        ("HERE/alias/cut", "alias/*", "tools/cut"),
        ("HERE/alias/cut", "tools/cut", "tools/cut"),
        ("HERE/home/folder/cut", "tools/*", "tools/cut"),
        ("HERE/tools/shell", "tools/shell", "tools/shell"),
        ("HERE/tools/sub/deep", "tools/*/deep", "tools/sub/deep"),
        ("cut", "cut", "tools/cut"),
        ("cut", "c*", "tools/cut"),
    ],
)
def test_what_is_executed_is_what_was_matched(
    here: Path, word: str, pattern: str, executed: str
) -> None:
    assert found(here, word, pattern) == executed


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("HERE/tools/../bin/sh", "tools/*"),
        ("HERE/tools/../tools/cut", "tools/*"),
        ("HERE/tools/sub/deep", "tools/*"),
        ("HERE/tools/shell", "tools/*"),
        ("HERE/bin/sh", "tools/shell"),
        ("HERE/home/link", "tools/*"),
        ("HERE/home/link", "tools/cut"),
        ("HERE/home/evil", "tools/*"),
        ("./cut", "tools/cut"),
        ("./cut", "tools/*"),
        ("./cut", "cut"),
        ("folder/cut", "tools/*"),
        ("folder/cut", "tools/cut"),
        ("HERE/tools/cut", "cut"),
        ("cut", "tools/*"),
        ("evil", "cut"),
        ("", "cut"),
        ("cu\0t", "cut"),
        ("HERE/tools/cu\0t", "tools/*"),
        ("HERE/tools/cu\ud800t", "tools/*"),
        ("HERE/tools/" + "a" * 5000, "tools/*"),
        ("HERE/tools/", "tools/*"),
    ],
)
def test_nothing_else_is(here: Path, word: str, pattern: str) -> None:
    with pytest.raises((NotAllowed, FileNotFoundError)):
        found(here, word, pattern)


def test_a_program_is_called_by_a_relative_path_in_its_folder(here: Path) -> None:
    handlers = configure(allow_command=(str(here / "tools/cut"), str(here / "bin/*")))
    assert handlers.handles.programs == (str(here / "tools/cut"), str(here / "bin/*"), "./cut")
    assert found(here, "./cut", "tools/cut", folder="tools") == "tools/cut"
    assert found(here, "./cut", "alias/cut", folder="alias") == "tools/cut"
    with pytest.raises(NotAllowed):
        found(here, "./cut", "tools/cut", folder="home/../tools")


def test_what_is_allowed_but_not_there_is_not_found(here: Path) -> None:
    for word, pattern in (("HERE/tools/none", "tools/*"), ("none", "none")):
        with pytest.raises(FileNotFoundError):
            found(here, word, pattern)


def test_the_name_of_a_program_stays_and_its_path_becomes_the_real_one(here: Path) -> None:
    assert resolve_program("cut", ["cut"], str(here / "tools"), "/") == (
        str(here / "tools/cut"),
        "cut",
    )
    linked = str(here / "home/folder/cut")
    assert resolve_program(linked, [f"{here}/tools/*"], "", "/") == (str(here / "tools/cut"),) * 2


def test_a_path_with_folders_that_are_not_absolute_is_not_that_of_the_task(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "home")
    with pytest.raises(FileNotFoundError):
        look_up("evil", ":.:home")


@pytest.mark.parametrize(
    "pattern", ["*", "./x", "tools/*", "*/ffmpeg", "/opt/../bin/*", "/opt/", "/opt/./x"]
)
def test_a_pattern_that_names_no_place_is_refused(pattern: str) -> None:
    with pytest.raises(BadConfig, match="--allow-command"):
        configure(allow_command=(pattern,))
