"""Settings of a queue as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.errors import BadInput
from stayer.core.queue_settings import read
from stayer.core.units import CENTURY


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, CENTURY + 1, "1d"])
def test_what_is_no_time_is_kept_for_none(seconds: Any) -> None:
    with pytest.raises(BadInput, match="retention of complete"):
        read({"retention": {"complete": seconds}})


@pytest.mark.parametrize("kept", [{"started": 5.0}, ["complete"], None])
def test_what_is_not_kept_has_no_retention(kept: Any) -> None:
    with pytest.raises(BadInput, match="complete, failed, cancelled, log, result"):
        read({"retention": kept})


def test_any_other_is_as_it_was_said() -> None:
    said: Any = {"complete": 0, "log": CENTURY, "failed": None}
    assert read({"retention": said}) == {"retention": said}
