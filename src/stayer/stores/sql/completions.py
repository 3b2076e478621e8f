"""Tasks that ran to their end, many at a time: those that can be completed by one statement.

A change is plain if it is what `lifecycle.decide` makes of `Done`. Neighbours that differ in
nothing but id and result make a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stayer.core.effects import completion
from stayer.core.model import Change, State


def groups(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """The changes in their order, plain ones that belong together as one group."""
    group: list[Change] = []
    common: object = None
    for change in changes:
        plain = in_common(change) if _is_plain(change) else None
        if group and (plain is None or plain != common):
            yield group
            group = []
        common = plain
        group.append(change)
    if group:
        yield group


def is_one_group(changes: Sequence[Change]) -> bool:
    """Whether all of them can be completed together, each task once."""
    return (
        all(_is_plain(change) for change in changes)
        and len({in_common(change) for change in changes}) == 1
        and len({change.id for change in changes}) == len(changes)
    )


def _is_plain(change: Change) -> bool:
    return (
        change.effect is completion(change.state, change.worker)
        and change.queue is not None
        and not change.ago
        and change.checkpoint is None
    )


def in_common(change: Change) -> tuple[State, str | None, int, int, str | None]:
    """What all of a group have in common, besides the effect."""
    return change.state, change.worker, change.attempt, change.last_order, change.queue
