"""Fixtures for pytest, which finds them by itself where Stayer is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # imported when a test asks: pytest loads this module in every project
    from stayer.testing import TestStore


@pytest.fixture
def stayer_store() -> Iterator[TestStore]:
    """Give this test a store of its own, in memory, with a clock that stands still. Apps and
    clients that name no store use it; others are given to `stayer_store.bind(app)`.
    """
    from stayer.testing import TestStore

    with TestStore() as store:
        yield store


@pytest.fixture
def stayer_inline(stayer_store: TestStore) -> TestStore:
    """Give this test a store of its own, where each task runs as soon as it is submitted."""
    stayer_store.inline = True
    return stayer_store
