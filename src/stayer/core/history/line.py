"""One thing that happened to a task, as its history says it."""

from __future__ import annotations

import msgspec

from stayer.core.model import Ending, Fault


class Line(msgspec.Struct, array_like=True, frozen=True):
    """A line of a history. The number 0 is no event, but only the end of an attempt. The worker is
    `true` where it is the one that has the attempt. `was_at` is there if it was told late: when it
    was.
    """

    number: int
    at: float
    event: str
    attempt: int = 0
    worker: str | bool | None = None
    note: str | None = None
    ending: Ending | None = None
    error: Fault | None = None
    node: str | None = None
    pid: int | None = None
    was_at: float | None = None
