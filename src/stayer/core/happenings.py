"""What can happen to a task: the words that `lifecycle.decide` understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from stayer.core.model import JSON, Fault, Pinned, Policy, Value, Verb

FaultyEnding = Literal["error", "killed", "oom", "timeout", "silent", "expired", "environment"]


class Ready(Struct, frozen=True):
    """All that it waited for is there."""

    near: tuple[str, float] | None = None
    """The node that has it for itself, and for how many seconds."""


class UpstreamFailed(Struct, frozen=True):
    """What it waits for has ended badly: its policy says what becomes of it."""

    upstream: str
    """Which one, and how it ended, in words."""
    last: bool = False
    """It waits for nothing else."""


class Due(Struct, frozen=True):
    """Its eta has come."""


class Reserve(Struct, frozen=True):
    """A worker takes it."""


class Start(Struct, frozen=True):
    """Its process runs."""

    pid: int | None = None


class Done(Struct, frozen=True):
    """It ran to its end."""

    result: Value = None


class Fail(Struct, frozen=True):
    """It ended badly, by its own doing: charged as a failure."""

    error: Fault
    ending: FaultyEnding = "error"
    after: float | None = None
    """It asked to be tried again after so many seconds."""
    final: bool = False
    """It said that another try is of no use."""
    bases: tuple[str, ...] = ()
    """The classes that the error is also one of, by name: not kept, only asked about retries."""


class Interrupt(Struct, frozen=True):
    """Its worker stopped it, or hands it back: not its fault."""

    note: str | None = None


class WorkerLost(Struct, frozen=True):
    """Its worker is dead: not its fault, unless it happens again and again."""

    note: str | None = None


class Snooze(Struct, frozen=True):
    """It is to be run again later: it asked for that, or its worker could not run it."""

    delay: float
    note: str | None = None
    """Why, if it was not the task that asked. Then it says nothing about losses before it."""
    ending: Literal["snoozed", "environment"] = "snoozed"
    """`environment`: its code could not be prepared, and later it may."""
    error: Fault | None = None


class Stop(Struct, frozen=True):
    """It was stopped on demand, and nothing of it is left."""


class Expire(Struct, frozen=True):
    """It became too old to be started, or started again."""


class Cancel(Struct, frozen=True):
    """Somebody wants it gone. A running task is asked; the others are gone at once."""

    grace: float | None = None


class DeclareComplete(Struct, frozen=True):
    """Somebody says that it is done, whatever became of it here."""

    result: Value = None


class DeclareFailed(Struct, frozen=True):
    """Somebody says that it has failed, whatever became of it here."""

    error: Fault


class Ask(Struct, frozen=True):
    """Somebody asks something of the running task."""

    verb: Verb
    arguments: dict[str, JSON] = {}


class Note(Struct, frozen=True):
    """Something worth remembering happened to the running task; nothing follows from it."""

    event: str
    note: str


class Pin(Struct, frozen=True):
    """What its code means was found out, and is to stay so for all attempts."""

    pinned: Pinned
    lock: str | None = None


class Set(Struct, frozen=True):
    """Somebody decides otherwise about its life; a running process hears of new limits."""

    priority: int | UnsetType = UNSET
    policy: Policy | UnsetType = UNSET
    limits: dict[str, JSON] = {}
    notify: tuple[str, ...] | UnsetType = UNSET


class SetMeta(Struct, frozen=True):
    """Somebody, or the task itself, sets fields of the user's own; null takes one away."""

    fields: Mapping[str, JSON]
    by_task: bool = False
    """The task did it, which it may do often: its history does not tell of that."""


class Edit(Struct, frozen=True, kw_only=True):
    """Somebody changes what a task is to do before it does it."""

    sets: Mapping[str, Any] = {}
    """Fields of the Task that become something else."""
    parameters: Value | UnsetType = UNSET
    note: str
    """What was changed, in words."""
    is_early: bool = False
    """The eta that it has now is still to come."""


class Retry(Struct, frozen=True):
    """Somebody wants a finished task run again, once these have ended."""

    waits: tuple[str, ...] = ()
    from_start: bool = False
    """What it saved in earlier attempts is forgotten."""
    keeps_eta: bool = False
    """It is due when it was before; else at once. See `is_early`."""
    edit: Edit | None = None
    """What is changed on this occasion."""
    unpins: bool = False
    """Its code is to be resolved anew."""


class WaitAgain(Struct, frozen=True):
    """What it was to run after is run again: it waits for it once more."""

    waits: tuple[str, ...]
    held: bool = False
    """Whether it stays held."""


class Hold(Struct, frozen=True):
    """It is not to be taken until released."""


class Release(Struct, frozen=True):
    """It may be taken again."""


Happening: TypeAlias = (
    Ready
    | UpstreamFailed
    | Due
    | Reserve
    | Start
    | Done
    | Fail
    | Interrupt
    | WorkerLost
    | Snooze
    | Stop
    | Expire
    | Cancel
    | DeclareComplete
    | DeclareFailed
    | Ask
    | Note
    | Pin
    | Set
    | SetMeta
    | Edit
    | Retry
    | WaitAgain
    | Hold
    | Release
)
