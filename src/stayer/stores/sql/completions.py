"""Tasks that ran to their end, many at a time: those that can be completed by one statement.

A change is plain if it is what `lifecycle.decide` makes of `Done`. Neighbours that differ in
nothing but id and result make a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stayer.core.effects import completion
from stayer.core.model import Change, Ending, State
from stayer.stores.sql import history


class End(NamedTuple):
    """What the tasks of one group have in common: who had them, and how they ended."""

    state: State
    worker: str | None
    attempt: int
    last_order: int
    queue: str
    to: State
    event: str
    note: str | None
    ending: Ending | None

    @property
    def news(self) -> tuple[str, str, int, str | None, str | None]:
        """What the journal says of each of them."""
        return self.queue, self.event, self.attempt, self.worker, self.note

    def line(self, now: float) -> str:
        """The line in the history of each of them, from what follows its number."""
        return history.after_number(now, self.event, self.attempt, True, self.note, self.ending)


def groups(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """The changes in their order, plain ones that belong together as one group."""
    group: list[Change] = []
    common: object = None
    for change in changes:
        plain = _in_common(change) if _is_plain(change) else None
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
        and len({_in_common(change) for change in changes}) == 1
        and len({change.id for change in changes}) == len(changes)
    )


def end_of(group: Sequence[Change]) -> End:
    """How the tasks of a group ended."""
    state, worker, attempt, last_order, queue = _in_common(group[0])
    effect = group[0].effect
    assert queue is not None
    assert effect.event is not None
    assert effect.attempt is not None
    return End(
        state, worker, attempt, last_order, queue,
        effect.to, effect.event, effect.note, effect.attempt.ending,
    )  # fmt: skip


def _is_plain(change: Change) -> bool:
    return (
        change.effect is completion(change.state, change.worker)
        and change.queue is not None
        and not change.ago
        and change.checkpoint is None
    )


def _in_common(change: Change) -> tuple[State, str | None, int, int, str | None]:
    """What all of a group have in common, besides the effect."""
    return change.state, change.worker, change.attempt, change.last_order, change.queue
