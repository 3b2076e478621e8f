"""What callers give: durations and moments, which inside are seconds, and values to be stored."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from stayer.core import units

Duration: TypeAlias = float | str | timedelta
"""Seconds, words such as `10m`, or a timedelta."""

Size: TypeAlias = int | str
"""Bytes, or words such as `8G`."""

Moment: TypeAlias = float | str | datetime
"""Epoch seconds, a datetime, or words: RFC 3339, `20:30`, `+10m`. Without a time zone it is local
time."""

Storable: TypeAlias = (
    "bool | int | float | str | bytes | Sequence[Storable] | Mapping[str, Storable] | None"
)
"""Parameters and results as they are given: what JSON can say, or raw bytes."""


def seconds(duration: Duration) -> float:
    """Read a duration, in seconds."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    return units.duration(duration)


def epoch(moment: Moment) -> float:
    """Read a moment, in seconds since 1970."""
    if isinstance(moment, datetime):
        moment = moment.timestamp()
    return units.moment(moment, time.time())
