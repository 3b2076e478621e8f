"""A store and a server for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import register
from tests.http.serving import Process, Site, make_access, served_here

SHORT = "not long"
"""What pyproject.toml says of which tests to run."""


def pytest_configure(config: pytest.Config) -> None:
    """Have the plugin that makes tests of a description of an API, where they are wanted."""
    if config.getoption("markexpr") != SHORT:
        config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave what only the long tests have, and what is slow to collect, to them."""
    is_short = config.getoption("markexpr") == SHORT
    return True if is_short and collection_path.name == "test_schema_edges.py" else None


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stayer.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """The store that the server has, for a look behind its back."""
    store = open_store(url)
    store.setup()
    yield store
    store.close()


@pytest.fixture
def worker(store: Store) -> str:
    """A worker that may take tasks of the queue `q`."""
    return register(store).id


@pytest.fixture
def site(tmp_path: Path, store: Store, url: str) -> Iterator[Site]:
    """A server of this process."""
    with served_here(tmp_path, url) as site:
        yield site


@pytest.fixture
def process(tmp_path: Path, store: Store, url: str) -> Iterator[tuple[Process, Site]]:
    """A server in a process of its own."""
    access, tokens = make_access(tmp_path)
    process = Process(tmp_path, url)
    yield process, Site(process.url, access, tokens)
    process.stop()
