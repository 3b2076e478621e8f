"""Queues: their settings, and what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

import msgspec
from msgspec import Struct

from stayer.core.model import JSON, State

Fair = Literal["owner", "key"]


class Rate(Struct, frozen=True):
    """So many starts in so many seconds, all of which may come at once after a rest."""

    count: int
    per: float


Kept = Literal["complete", "failed", "cancelled", "log", "result"]


KEPT: tuple[Kept, ...] = ("complete", "failed", "cancelled", "log", "result")
"""What is kept for a while: tasks in these states, their logs, their results."""


class QueueSettings(TypedDict, total=False):
    """What is to be changed in a queue; None takes a limit away, and what is not named stays."""

    paused: bool
    limit: int | None
    key_limit: int | None
    key_limits: Mapping[str, int | None]
    """Of single keys; None for one: as any other. Keys that are not named stay."""
    rate: Rate | None
    fair: Fair | None
    notify: tuple[str, ...]
    """Whom to tell of what becomes of its tasks."""
    defaults: Mapping[str, JSON]
    """For what its tasks do not say, by field; None takes one away. What is not named stays."""
    retention: Mapping[Kept, float | None]
    """How long what is kept; None: as the workers are told. What is not named stays."""


class QueueInfo(Struct, frozen=True, kw_only=True):
    """A queue, its settings, and how many of its tasks are in each state."""

    name: str
    paused: bool = False
    limit: int | None = None
    """How many of its tasks may run at once; None: any number."""
    key_limit: int | None = None
    """How many tasks of any one key may run at once."""
    key_limits: dict[str, int] = {}
    """The same for single keys, where it differs."""
    rate: Rate | None = None
    """How many of its tasks may begin in a time."""
    fair: Fair | None = None
    """Among tasks of equal priority, the owner (or key) that has used least goes first."""
    notify: tuple[str, ...] = ()
    """Whom to tell of what becomes of its tasks, besides those whom these name themselves."""
    defaults: dict[str, JSON] = {}
    """For what its tasks do not say when they come, by field: see `core.submit.defaults`."""
    next_start: float | None = None
    """When the rate lets the next task begin, if not yet."""
    counts: dict[State, int] = msgspec.field(default_factory=dict)
    workers: int = 0
    oldest: float | None = None
    """When the oldest task that could be taken was created."""
    retention: dict[Kept, float] = {}
    """How many seconds after their end its tasks are kept, by state, and how long their logs and
    results; what is not here: as the workers are told."""
