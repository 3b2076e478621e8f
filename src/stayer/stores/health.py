"""What a store can say about its own health, for `stayer doctor`; a store need not offer it."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

Status = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True):
    """One thing that was looked at: how it is, and what to do about it."""

    check: str
    status: Status
    message: str
    todo: str | None = None


@runtime_checkable
class CheckedStore(Protocol):
    """A store that can look itself over."""

    def check(self) -> list[Finding]:
        """Look at tables, integrity and counters; changes nothing."""


@runtime_checkable
class FileStore(Protocol):
    """A store that is a file on this machine."""

    path: str
    """Where it is."""
