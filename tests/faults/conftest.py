"""Fixtures of the fault tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import TASK_USER, Fleet

if TASK_USER:

    @pytest.fixture
    def tmp_path() -> Iterator[Path]:
        """Where the user of the tasks may write: not below pytest's own folder."""
        folder = Path(tempfile.mkdtemp(prefix="stayer-faults-"))
        folder.chmod(0o777)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()
