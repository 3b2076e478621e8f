"""A store of its own for every test, and the command that is pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Apart, Here
from tests.cli.working import Site
from tests.contract.builders import register


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is called."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stayer.db"


@pytest.fixture
def environment(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Nothing of the user who runs the tests."""
    for variable in ("STAYER_CONFIG", "STAYER_QUEUE", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
                     "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "LOGNAME"):  # fmt: skip
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    return {"STAYER_STORE": url, "HOME": str(home), "USER": "ann", "TZ": "UTC"}


@pytest.fixture
def stayer(folder: Path, environment: dict[str, str]) -> Here:
    """The command, called in this process."""
    return Here(environment)


@pytest.fixture
def apart(folder: Path, environment: dict[str, str]) -> Apart:
    """The command, called in a process of its own."""
    return Apart(environment, folder)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """The store that the command uses, for a look behind its back."""
    store = open_store(url)
    store.setup()
    yield store
    store.close()


@pytest.fixture
def worker(store: Store) -> str:
    """A worker that may take tasks of the queue `q`."""
    return register(store).id


@pytest.fixture
def fleet(tmp_path: Path, store: Store) -> Iterator[Site]:
    """Real workers on the store that the command uses; all that they started ends with the test."""
    fleet = Site(tmp_path)
    yield fleet
    fleet.close()
