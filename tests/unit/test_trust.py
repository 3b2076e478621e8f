"""Whose files are believed: a file that others can write says what others want."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stayer.config import load, token_for
from stayer.config.trust import distrust
from stayer.core.errors import BadConfig

MALLORY = 4242
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: only root can give files to others"
)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home" / ".config" / "stayer").mkdir(parents=True)
    return {"HOME": str(tmp_path / "home"), "USER": "ann"}


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def here(cwd: Path) -> Path:
    """The file in the working directory."""
    return written(cwd / "stayer.toml", 'queue = "here"')


@pytest.fixture
def own(home: dict[str, str]) -> Path:
    """The user's own file."""
    return written(Path(home["HOME"]) / ".config" / "stayer" / "stayer.toml", 'queue = "own"')


def written(path: Path, text: str, mode: int = 0o644) -> Path:
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def test_a_file_of_ones_own_is_believed(home, cwd, here, own):
    found = load({}, home, cwd)
    assert (found.queue, found.file, found.passed_over) == ("here", str(here), None)


@pytest.mark.parametrize("mode", [0o666, 0o646, 0o602])
def test_a_file_here_that_everybody_may_write_is_passed_over(home, cwd, here, own, mode):
    here.chmod(mode)
    found = load({}, home, cwd)
    assert (found.queue, found.file) == ("own", str(own))
    assert found.passed_over == f"{here}: every user may write it"


@as_root
def test_a_file_here_of_somebody_else_is_passed_over(home, cwd, here, own):
    os.chown(here, MALLORY, -1)
    found = load({}, home, cwd)
    assert (found.queue, found.file) == ("own", str(own))
    assert found.passed_over == f"{here}: it belongs to user {MALLORY}"


def test_a_link_of_ones_own_is_believed(home, cwd, own):
    (cwd / "stayer.toml").symlink_to(own)
    assert load({}, home, cwd).file == str(cwd / "stayer.toml")


@as_root
def test_a_link_here_of_somebody_else_is_passed_over(home, cwd, own):
    """What is written relative to the file would be relative to her folder."""
    link = cwd / "stayer.toml"
    link.symlink_to(own)
    os.chown(link, MALLORY, -1, follow_symlinks=False)
    found = load({}, home, cwd)
    assert (found.file, found.passed_over) == (str(own), f"{link}: it belongs to user {MALLORY}")


@as_root
def test_a_file_here_that_a_group_of_others_may_write_is_passed_over(home, cwd, here):
    here.chmod(0o664)
    os.chown(here, -1, 4243)
    found = load({}, home, cwd)
    assert (found.file, found.passed_over) == (None, f"{here}: group 4243 may write it")


@as_root
def test_a_file_of_root_is_believed_by_everybody(here):
    here.chmod(0o664)
    assert distrust(os.stat(here), user=MALLORY) is None
    os.chown(here, MALLORY + 1, 0)
    assert distrust(os.stat(here), user=MALLORY) == f"it belongs to user {MALLORY + 1}"
    os.chown(here, MALLORY, 0)
    assert distrust(os.stat(here), user=MALLORY) is None


def test_the_users_own_file_is_refused_if_others_may_write_it(home, cwd, own):
    own.chmod(0o666)
    with pytest.raises(BadConfig, match=r"every user may write it.*chmod go-w"):
        load({}, home, cwd)


@as_root
def test_the_users_own_file_is_refused_if_it_is_not_hers(home, cwd, own):
    os.chown(own, MALLORY, -1)
    with pytest.raises(BadConfig, match=rf"{own}.*belongs to user {MALLORY}.*--config"):
        load({}, home, cwd)


@as_root
def test_a_file_that_is_named_may_be_of_somebody_else(home, cwd, here):
    os.chown(here, MALLORY, -1)
    assert load({"config": "stayer.toml"}, home, cwd).queue == "here"
    assert load({}, {**home, "STAYER_CONFIG": str(here)}, cwd).queue == "here"


def test_a_file_that_is_named_is_refused_if_everybody_may_write_it(home, cwd, here):
    here.chmod(0o666)
    with pytest.raises(BadConfig, match="every user may write it"):
        load({"config": "stayer.toml"}, home, cwd)


def test_a_token_of_the_environment_is_not_for_a_store_that_a_file_here_names(home, cwd):
    """It may have come with somebody's repository."""
    file = written(cwd / "stayer.toml", 'store = "http://mallory:1"')
    found = load({}, {**home, "STAYER_TOKEN": "secret"}, cwd)
    with pytest.raises(BadConfig, match=rf"STAYER_TOKEN.*{file}.*--store|--config") as raised:
        token_for(found)
    assert "secret" not in str(raised.value)


def test_a_token_is_for_the_store_that_stands_beside_it(home, cwd):
    written(cwd / "stayer.toml", 'store = "http://mine:1"\ntoken = "t"', 0o600)
    assert token_for(load({}, home, cwd)) == "t"


@pytest.mark.parametrize("way", ["flag", "variable", "own", "named"])
def test_a_token_of_the_environment_is_for_a_store_that_the_user_chose(home, cwd, own, way):
    flags: dict[str, str | None] = {}
    environ = {**home, "STAYER_TOKEN": "t"}
    if way == "flag":
        flags["store"] = "http://mine:1"
    elif way == "variable":
        environ["STAYER_STORE"] = "http://mine:1"
    elif way == "own":
        written(own, 'store = "http://mine:1"')
    else:
        written(cwd / "x.toml", 'store = "http://mine:1"')
        flags["config"] = "x.toml"
    assert token_for(load(flags, environ, cwd)) == "t"


def test_a_token_of_the_environment_stays_here_with_a_store_that_needs_none(home, cwd):
    written(cwd / "stayer.toml", 'store = "sqlite:///x.db"')
    assert token_for(load({}, {**home, "STAYER_TOKEN": "t"}, cwd)) is None
    assert token_for(load({}, home, cwd)) is None
