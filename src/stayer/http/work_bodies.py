"""What workers over HTTP send: see `docs/reference/worker-protocol.md`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from stayer.core import limits
from stayer.core.happenings import FaultyEnding
from stayer.core.model import Fault, Progress, Statistics, Usage
from stayer.core.worker_model import Handles
from stayer.service import work

LONGEST_WAIT_S = 60.0
LEASES_S = (2.0, 86400.0)

Attempt = Annotated[int, Meta(ge=1, le=2**31 - 1, description="As `take` gave it: the fence.")]
Waiting = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Text = Annotated[str, Meta(max_length=limits.WORD)]
TaskId = Annotated[str, Meta(max_length=limits.ID)]
Note = Annotated[str, Meta(max_length=limits.NOTE)]
Moment = Annotated[float, Meta(ge=-1e10, le=1e10)]


class Running(Struct, frozen=True, kw_only=True):
    """An attempt that a worker holds, and perhaps news of it."""

    id: TaskId
    attempt: Number
    acknowledged: Annotated[int, Meta(ge=0, le=2**53)] = 0
    paused: bool | None = None
    progress: Progress | None = None
    usage: Usage | None = None
    statistics: Statistics | None = None


class BeatBody(Struct, frozen=True, kw_only=True):
    """A sign of life."""

    number: Annotated[int, Meta(ge=1, le=2**53)]
    nonce: Annotated[str, Meta(min_length=1, max_length=100)]
    protocol: int = work.PROTOCOL
    lease: Annotated[float, Meta(ge=LEASES_S[0], le=LEASES_S[1])] = 120.0
    queues: Annotated[tuple[Text, ...], Meta(max_length=1000)] = ()
    slots: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    node: Text = ""
    pid: Annotated[int, Meta(ge=0, le=2**53)] = 0
    version: Text = ""
    handles: Handles | None = None
    draining: bool = False
    keeps: bool = False
    running: Annotated[tuple[Running, ...], Meta(max_length=100_000)] | None = None
    news: Annotated[tuple[Running, ...], Meta(max_length=100_000)] = ()
    """The same of some, without saying that these are all."""


class TakeBody(Struct, frozen=True, kw_only=True):
    """A request for tasks."""

    key: Annotated[str, Meta(min_length=1, max_length=100)]
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    wait: Waiting = 0.0
    queues: Annotated[tuple[Text, ...], Meta(max_length=1000)] = ()
    handles: Handles | None = None


class WaitQuery(Struct, frozen=True, kw_only=True):
    """What to wait for."""

    queue: Annotated[
        tuple[str, ...], Meta(description="A task of this queue. May be repeated.")
    ] = ()
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S, description="How long.")] = 0.0
    since: (
        Annotated[str, Meta(max_length=100, description="The `position` of the last answer.")]
        | None
    ) = None


class LeaveBody(Struct, frozen=True, kw_only=True):
    """Which beat was the last."""

    number: Annotated[int, Meta(ge=1, le=2**53)]


class Fence(Struct, frozen=True, kw_only=True):
    """Which attempt is meant."""

    attempt: Attempt


class LogQuery(Struct, frozen=True, kw_only=True):
    """Which attempt is meant, and where in its log."""

    attempt: Attempt
    start: Annotated[int, Meta(ge=0, le=2**53, description="How many bytes came before.")]


class TasksQuery(Struct, frozen=True, kw_only=True):
    """Which tasks."""

    id: Annotated[tuple[str, ...], Meta(max_length=1000, description="May be repeated.")]


class StartBody(Struct, frozen=True, kw_only=True):
    """What began."""

    pid: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class ProgressBody(Struct, frozen=True, kw_only=True):
    """How far it is."""

    done: float | None = None
    total: float | None = None
    message: Note | None = None
    remaining: float | None = None


class MetaBody(Struct, frozen=True, kw_only=True):
    """Fields of the user's own that an attempt sets; null takes one away."""

    meta: dict[str, Any]


class Nothing(Struct, frozen=True, kw_only=True):
    """What may be left out."""


class CompleteBody(Struct, frozen=True, kw_only=True):
    """The outcome."""

    result: Any = None


class FailBody(Struct, frozen=True, kw_only=True):
    """What went wrong."""

    error: Fault
    ending: FaultyEnding = "error"
    retry_after: Annotated[float, Meta(ge=0, le=3155760000)] | None = None
    final: bool = False


class ReturnBody(Struct, frozen=True, kw_only=True):
    """Why it goes back, and when it may be taken again."""

    note: Note | None = None
    delay: Annotated[float, Meta(ge=0, le=3155760000)] | None = None


class Change(Struct, frozen=True, kw_only=True):
    """What happened to an attempt, and as what the worker knows its task."""

    id: TaskId
    attempt: Number
    happening: dict[str, Any]
    state: str | None = None
    last_order: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    ago: Moment = 0.0
    paused: bool | None = None
    checkpoint: str | None = None


class ChangesBody(Struct, frozen=True, kw_only=True):
    """What happened to several, in this order."""

    changes: Annotated[tuple[Change, ...], Meta(max_length=10_000)]
