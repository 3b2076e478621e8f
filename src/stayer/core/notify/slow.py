"""Tasks that run or are silent for too long: who wants to hear of it, and the notice. Pure.

A hook asks for it with a word, as for all else: `late`, `late=2h`, `no_progress=30m`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.model import JSON, Task
from stayer.core.notify.notices import (
    LATE,
    NO_PROGRESS,
    Notice,
    notice_id,
    notice_record_of,
)

if TYPE_CHECKING:
    from stayer.core.notify.hooks import Rules

NEAR_LIMIT = 0.9
"""A task is late when it has used so much of its time limit."""


class Wish(Struct, frozen=True):
    """To tell `target` of an event (`late` or `no_progress`) after so many seconds; None: when
    it is unusual.
    """

    event: str
    after: float | None
    target: str


def wishes(hooks: Iterable[str]) -> Iterator[Wish]:
    """List what of this kind some hooks ask for."""
    for hook in hooks:
        words, _, target = hook.partition(":")
        for word in words.split(","):
            event, _, after = word.partition("=")
            if event not in (LATE, NO_PROGRESS):
                continue
            try:
                yield Wish(event, units.duration(after) if after else None, target)
            except BadInput:  # written into the store by hand
                continue


def wishes_of_rules(rules: Rules) -> list[Wish]:
    """List what the configuration asks for, of every task."""
    return [
        *(Wish(LATE, None, hook) for hook in rules.late),
        *(Wish(NO_PROGRESS, rules.no_progress_after, hook) for hook in rules.no_progress),
    ]


def slow_notice(task: Task, wish: Wish, since: float, because: str, now: float) -> Notice:
    """Make the notice; its id is the same, whoever makes it, and another after another start, or
    another report (`since`).
    """
    id = notice_id(task.id, since, task.attempt, f"{wish.event}\n{wish.target}")
    record: dict[str, JSON] = {**notice_record_of(task), "because": because}
    return Notice(
        id=id, task=task.id, queue=task.queue, event=wish.event, to=wish.target,
        attempt=task.attempt, at=now, next=now, record=record,
    )  # fmt: skip
