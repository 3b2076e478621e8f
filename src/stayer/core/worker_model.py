"""Workers: what they can run, their heartbeats, and what a heartbeat brings back."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stayer.core.model import Order

WorkerState = Literal["IDLE", "PROCESSING", "DRAINING", "STALE"]


class WorkerOrder(Struct, frozen=True, kw_only=True):
    """What an operator wants of a worker as a whole. Each order takes the place of the last one,
    and goes before the worker's own flags and settings.
    """

    number: int = 1
    """How many there have been for this worker."""
    queues: tuple[str, ...] | None = None
    """What to take tasks from; None: what its flags and settings say."""
    slots: int | None = None
    grace: float | None = None
    """To stop what it runs, hand that back, and leave: how long it may take to end, in seconds.
    None: it is not to stop."""
    ends_at: float | None = None
    """After this moment its heartbeats are refused; None: never."""


class Worker(Struct, frozen=True, kw_only=True):
    """Who takes tasks; the last six fields are the store's."""

    id: str
    node: str
    pid: int
    queues: tuple[str, ...] = ()
    slots: int = 1
    version: str = ""
    draining: bool = False
    lease: float = 120.0
    keeps: bool = False
    """Its tasks run on without a lease (`fence = "keep"`), so nobody may take them from it."""
    handles: Handles | None = None
    """What it can run; None: it did not say."""
    number: int = 0
    started_at: float = 0.0
    beat_at: float = 0.0
    running: int = 0
    state: WorkerState = "IDLE"
    order: WorkerOrder | None = None
    """What an operator wants of it, if it is not to go by its flags and settings alone."""


class Suspect(Struct, frozen=True):
    """A worker that has been silent for over two of its intervals: a hint, not a verdict."""

    worker: str
    number: int
    lease: float


class Orders(Struct, frozen=True):
    """The open orders of one running attempt."""

    id: str
    attempt: int
    orders: tuple[Order, ...]


class Beat(Struct, frozen=True, kw_only=True):
    """The store's answer to a beat."""

    now: float
    orders: tuple[Orders, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    watched: bool = False
    """Somebody looks at what this worker runs: news are welcome every second."""
    drain: bool = False
    """Somebody wants this worker to finish what it runs, and to take no more."""
    order: WorkerOrder | None = None
    """What somebody wants of the worker as a whole."""
    away: tuple[str, ...] = ()
    """The worker's queues that can't be reached."""
    undelivered: tuple[str, ...] = ()
    """The tasks whose reports did not arrive, for their part of the store is away: tell again."""
    proven: tuple[str, ...] | None = None
    """The queues in which the lease is renewed; None: in all."""


class Handles(Struct, frozen=True, kw_only=True):
    """What a worker can run. Patterns are shell-style (`*`, `?`, `[abc]`)."""

    plain: bool = False
    """Tasks with neither name nor command."""
    names: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Commands, by their first word: by the name of the program, or by its path. Here `*`, `?` and
    brackets don't stand for a slash; `*` alone means all of them."""
    variables: tuple[str, ...] = ("*",)
    """Variables that it lets tasks bring along."""
    threads: bool = False
    """In threads of one process, where a task can be asked to stop, and nothing else."""
    answered_at: float | None = None
    """Those threads don't answer, and run nothing more: when they last did. None: all is well."""


EVERYTHING = Handles(plain=True, names=("*",), programs=("*",))
