"""Which queues of a store can be reached, where some can be away by themselves."""

from __future__ import annotations

from msgspec import Struct


class Reach(Struct, frozen=True):
    """What there is."""

    queues: tuple[str, ...]
    """Those that can be reached, by name."""
    away: dict[str, str]
    """The others, and why."""


def describe_away(away: dict[str, str]) -> str:
    """Say which queues can't be reached, for a list that has nothing of theirs."""
    names = sorted(away)
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    one = len(names) == 1
    return (
        f"{'queue' if one else 'queues'} {listed} can't be reached now, and nothing of "
        f"{'it' if one else 'them'} is shown: {away[names[0]]}"
    )
