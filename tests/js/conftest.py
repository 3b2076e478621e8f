from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.system import System, live_system


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A store, a server and a worker, all real."""
    with live_system(tmp_path) as system:
        yield system
