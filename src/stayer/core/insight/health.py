"""What a store says about its own health, for `stayer doctor`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True):
    """One thing that was looked at: how it is, and what to do about it."""

    check: str
    status: Status
    message: str
    todo: str | None = None
