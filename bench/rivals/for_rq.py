"""A no-op for rq."""

from __future__ import annotations


def nothing(number: int) -> int:
    return number
