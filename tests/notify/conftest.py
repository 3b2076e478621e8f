"""What the tests of delivering are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stayer.core.model import Task
from stayer.core.notify.notices import Notice, notice_record_of
from tests.notify.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def notice() -> Notice:
    """A task that failed."""
    task = Task(id="t", queue="q", name="train", state="failed", attempt=2, parameters={"n": 1})
    return Notice(
        id="0123456789abcdef01234567", task="t", queue="q", event="failed", to="hook", attempt=2,
        at=1_700_000_000.0, tries=1, record=notice_record_of(task),
    )  # fmt: skip
