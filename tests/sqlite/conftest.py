"""A store in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.store import Store
from stayer.stores import open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stayer.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{path}")
    store.setup()
    yield store
    store.close()
