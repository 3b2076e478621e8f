from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.system import System, live_system


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A store and a server."""
    with live_system(tmp_path, slots=0) as system:
        yield system
