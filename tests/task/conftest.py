"""A folder with user code, and a task that runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.task.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)
