"""All that a store holds, as records that every store can give and take (`Store.dump`, `load`).

They say what the contract says, in no store's own form: times, numbers of events and of attempts
are as they were. What follows from them (counters, indexes, who holds a unique word, the outbox) is
not among them: the store that takes them works it out. Workers are not, either: none is alive when
a store is moved.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from stayer.core.flows.model import Part
from stayer.core.history.line import Line
from stayer.core.insight.queue_stats import Figures
from stayer.core.model import State, Statistics, Task, Usage
from stayer.core.notify.notices import Notice
from stayer.core.queue_model import Fair, Kept, Rate
from stayer.core.schedules.model import Schedule

Stage = Literal[
    "counters", "queues", "tasks", "logs", "usage", "checkpoints", "flows", "schedules", "notices",
    "purged", "figures", "files", "ties",
]  # fmt: skip
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In this order they are loaded: what is named by another comes before it."""


class Counters(Struct, frozen=True, kw_only=True):
    """Where the store's own counting is; there is one of these."""

    last_event: int
    sampled: int | None = None
    """Up to when figures are counted."""
    shared: dict[str, str] = {}
    """What servers share, by name (`Store.shared`): who may come in, what was counted."""


class QueueCopy(Struct, frozen=True, kw_only=True):
    """A queue with its settings, and what its rate and its turns have to remember."""

    name: str
    paused: bool = False
    limit: int | None = None
    key_limit: int | None = None
    key_limits: dict[str, int] = {}
    rate: Rate | None = None
    tokens: float | None = None
    tokens_at: float | None = None
    fair: Fair | None = None
    retention: dict[Kept, float] = {}
    notify: tuple[str, ...] = ()
    defaults: str = ""
    """As `core.submit.defaults` writes them."""
    logs_gone: float = 0.0
    results_gone: float = 0.0
    """Those of tasks that ended up to then have been forgotten."""
    shares: dict[str, tuple[float, float, float]] = {}
    """What each owner or key has used: seconds, runs, and when that was."""


class TaskCopy(Struct, frozen=True, kw_only=True):
    """A task with its whole history, the oldest line first: the one that it came."""

    task: Task
    """Without parameters and result, which are here in the form in which all stores keep them."""
    parameters: str | bytes | None = None
    result: str | bytes | None = None
    history: tuple[Line, ...] = ()


class LogCopy(Struct, frozen=True, kw_only=True):
    """A piece of a log."""

    queue: str
    task: str
    attempt: int
    start: int
    at: float
    data: bytes


class UsageCopy(Struct, frozen=True, kw_only=True):
    """A point of the series of what an attempt has used; or what it has reported of itself, which
    has a slot of its own.
    """

    queue: str
    task: str
    attempt: int
    slot: int
    usage: Usage
    statistics: Statistics | None = None


class CheckpointCopy(Struct, frozen=True, kw_only=True):
    """What a task has saved."""

    queue: str
    task: str
    attempt: int
    at: float
    data: bytes


class FileCopy(Struct, frozen=True, kw_only=True):
    """A file that came along with tasks."""

    sha256: str
    at: float
    """When somebody last put it."""
    data: bytes


class FlowCopy(Struct, frozen=True, kw_only=True):
    """A flow, without its tasks."""

    id: str
    name: str
    owner: str | None
    created: float
    parts: tuple[Part, ...]


class Tie(Struct, frozen=True):
    """A task that another runs after; `anyhow`: it need only have ended."""

    id: str
    anyhow: bool


class TiesCopy(Struct, frozen=True, kw_only=True):
    """What a task was to run after, in the order in which it was named, and what it waits for."""

    queue: str
    task: str
    is_over: bool
    """The task has ended: it needs nobody's result any more."""
    upstreams: tuple[Tie, ...]
    waits: tuple[Tie, ...]
    """By id."""


class PurgedCopy(Struct, frozen=True, kw_only=True):
    """What is left of a task that is gone."""

    id: str
    queue: str
    state: State
    created: float
    finished_at: float
    at: float


class FiguresCopy(Struct, frozen=True, kw_only=True):
    """What a queue, or all of them, did in a stretch of so many seconds."""

    step: int
    figures: Figures


Record: TypeAlias = (
    Counters | QueueCopy | TaskCopy | LogCopy | UsageCopy | CheckpointCopy | FlowCopy | Schedule
    | Notice | PurgedCopy | FiguresCopy | FileCopy | TiesCopy
)  # fmt: skip


class Batch(Struct, frozen=True):
    """Some records of a stage, and where to go on; None: that was all."""

    records: tuple[Record, ...] = ()
    next: str | None = None


class Seal(Struct, frozen=True, kw_only=True):
    """The mark of a store that is being moved, or was: nobody but the move itself changes it."""

    move: str
    """A name drawn at random, the same in both stores."""
    role: Literal["source", "target", "moved", "backup"]
    """Being moved from, being moved into, moved, a copy that is kept."""
    other: str
    """The URL of the other store, without any password."""
    other_identity: str
    at: float
    progress: str = ""
    """How far the move into it has come."""

    @property
    def message(self) -> str:
        """What is said to whoever wants to change the store."""
        match self.role:
            case "source":
                return f"this store is being moved to {self.other}: nothing is changed here"
            case "moved":
                return f"this store was moved to {self.other}: use that one"
            case "backup":
                return (
                    f"this store is a backup of {self.other}: `stayer restore FILE --to URL` makes "
                    "a store of it"
                )
            case "target":
                return (
                    f"this store is being filled from {self.other}, and that is not finished: "
                    "run the same `stayer move` again"
                )
