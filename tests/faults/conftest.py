"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import TASK_USER, Fleet, folder_for_all

if TASK_USER:

    @pytest.fixture
    def tmp_path() -> Iterator[Path]:
        """Where the user of the tasks may write."""
        with folder_for_all() as folder:
            yield folder


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()
