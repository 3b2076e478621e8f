"""The records that everything else passes around: frozen, typed, free of behaviour.

Times are epoch seconds by the store's clock, durations are seconds, ids are strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr

from stayer.core.insight.kind import kind_of

if TYPE_CHECKING:
    JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
    """What JSON can say."""
    Value: TypeAlias = JSON | bytes
    """Parameters and results: a JSON value, or raw bytes."""
else:  # msgspec can't resolve a recursive alias
    JSON = Value = Any

EpochSeconds = Annotated[float, "moment"]
"""A moment."""
Seconds = Annotated[float, "seconds"]
"""A length of time."""
ByteCount = Annotated[int, "bytes"]
"""A size. From these three follows how `core.fields` reads, shows and documents a field."""

State = Literal[
    "waiting", "scheduled", "pending", "reserved", "started", "complete", "failed", "cancelled"
]
Ending = Literal[
    "done",
    "error",
    "killed",
    "oom",
    "timeout",
    "silent",
    "interrupted",
    "lost",
    "expired",
    "cancelled",
    "snoozed",
    "environment",
]
UniqueWhile = Literal["waiting", "alive"]
"""How long a task keeps its unique word to itself: until it is taken, or until it has ended."""
WhenFailed = Literal["cancel", "run", "hold"]
Verb = Literal["cancel", "pause", "resume", "signal", "stack", "set"]

STATES: tuple[State, ...] = (
    "waiting",
    "scheduled",
    "pending",
    "reserved",
    "started",
    "complete",
    "failed",
    "cancelled",
)
QUEUED: tuple[State, ...] = ("waiting", "scheduled", "pending")
RUNNING: tuple[State, ...] = ("reserved", "started")
FINISHED: tuple[State, ...] = ("complete", "failed", "cancelled")
StateWord = State | Literal["running"]
"""What people may say of states: `running` is what a worker has."""
STATE_WORDS: tuple[StateWord, ...] = (*STATES, "running")


def states_meant(words: Iterable[StateWord]) -> tuple[State, ...]:
    """Return the states that these words mean, each once."""
    found: dict[State, None] = {}
    for word in words:
        found |= dict.fromkeys(RUNNING) if word == "running" else {word: None}
    return tuple(found)


class Fault(Struct, frozen=True, omit_defaults=True):
    """What went wrong: the `error` of a task or of an attempt."""

    type: str
    message: str = ""
    traceback: str | None = None
    exit_code: int | None = None
    signal: int | None = None


class Progress(Struct, frozen=True):
    """How far a task has come; `remaining` is the estimate to its end in seconds."""

    done: float | None = None
    total: float | None = None
    message: str | None = None
    at: float | None = None
    remaining: float | None = None


class Usage(Struct, frozen=True):
    """What the processes of an attempt have used up to a moment of its life."""

    ran: float = 0.0
    """Seconds that it has run; what it stood still does not count."""
    cpu: float = 0.0
    rss: int = 0
    peak: int = 0
    read: int = 0
    written: int = 0
    processes: int = 0
    at: float | None = None


class Metric(Struct, frozen=True):
    """A number that a task reports of itself again and again, such as its loss, as it is by now."""

    last: float | None = None
    """The newest value; None: what was reported is not a number, or infinite."""
    min: float | None = None
    max: float | None = None
    count: int = 0
    """How many values there were."""
    x: float | None = None
    """What the newest was reported for, such as the number of an epoch."""


class Series(Metric, frozen=True):
    """A metric over time: `core.insight.statistics` says which points are kept."""

    points: tuple[tuple[float, float | None, float | None], ...] = ()
    """Seconds since the attempt began, `x`, value; the newest is always there."""


class Step(Struct, frozen=True):
    """A named part of an attempt's work; times are seconds since the attempt began."""

    name: str
    start: float
    """When it began for the first time."""
    end: float | None = None
    """When it last ended; None: it goes on."""
    elapsed: float = 0.0
    """How long it took, all times together that have ended."""
    count: int = 1
    """How many times it was begun."""
    since: float | None = None
    """When the time began that goes on."""


class Statistics(Struct, frozen=True):
    """What an attempt has reported of itself: metrics by name, steps in order of their start."""

    metrics: dict[str, Series] = {}
    steps: tuple[Step, ...] = ()
    left_out: int = 0
    """How many values and steps found no place, since there were too many names."""
    at: float | None = None
    """When it came to the store."""


class Order(Struct, frozen=True, omit_defaults=True):
    """Something asked of a running task, delivered with the beat until it is acknowledged."""

    number: int
    verb: Verb
    arguments: dict[str, JSON] = {}
    acknowledged: bool = False


class Policy(Struct, frozen=True, omit_defaults=True):
    """What the submitter decided about the task's life: retries, limits. Defaults are not stored.

    `core.fields` has the rest about each field of Policy, NewTask and Task.
    """

    retries: int = 0
    retry_wait: Seconds = 0.0
    retry_backoff: float = 2.0
    retry_cap: Seconds = 3600.0
    retry_on: tuple[str, ...] = ()
    """Endings, or types of errors, that are worth another try; none named: all."""
    give_up_on: tuple[str, ...] = ()
    losses: int = 3
    deadline: Seconds | None = None
    """How long after its submission, or its last retry by hand, it has to have ended."""
    time_limit: Seconds | None = None
    silence_limit: Seconds | None = None
    memory_limit: ByteCount | None = None
    grace: Seconds | None = None
    fence: Literal["freeze", "kill"] | None = None
    """None, here and in the limits: what the worker was told."""
    when_failed: WhenFailed = "cancel"
    """What becomes of it when a task that it is to run after ends failed or cancelled."""
    time_growth: float = 1.0
    time_most: Seconds | None = None
    memory_growth: float = 1.0
    memory_most: ByteCount | None = None
    """The try after one that exceeded its limit has so many times as much, up to the most."""
    near: str | None = None
    """The one of the tasks it runs after on whose node it is to run, if that can be."""
    near_wait: Seconds | None = None
    """For how many seconds it waits for that node; None: the usual."""
    over: str | None = None
    """The map of its flow of which one task, that of the same place, is its input."""


class SentFile(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file that the store keeps for tasks, and what a task calls it."""

    name: str
    """A path in the folder of the task."""
    sha256: str
    size: int
    executable: bool = False


class Code(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a task needs to be there before it runs; `core.code` has the rules.

    `requirements` are lines as pip reads them, or the text of a requirements file or of a lock;
    `python` is a version (`3.12`) or a range (`>=3.11`); `git` is `URL[@REF][#FOLDER]`; `files`
    were sent to the store before (`Client.send_file`). `image` is that of a container, in which the
    command runs instead of all these but the files.
    """

    requirements: tuple[str, ...] | str = ()
    python: str | None = None
    git: str | None = None
    files: tuple[SentFile, ...] = ()
    image: str | None = None


class Pinned(Struct, frozen=True, omit_defaults=True):
    """What a task's code has become: the same for all its attempts, and for all tasks of a map."""

    python: str = ""
    """Major and minor version; empty with an image, which brings its own."""
    lock: str | None = None
    """The sha256 of the lock; None: nothing is installed."""
    commit: str | None = None
    anew: bool = False
    """Nothing of this counts: somebody wants it to be found out anew, at the next attempt."""
    image: str | None = None
    """The digest of the image."""
    git: str | None = None
    """The repository of the commit, as `URL[#FOLDER]`, where its worker's default named it and not
    the task."""


class NewTask(Struct, frozen=True, kw_only=True):
    """What a submitter asks for. `delay` counts from the store's now, `eta` is a moment."""

    id: str
    queue: str
    name: str | None = None
    command: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    code: Code | None = None
    """What is to be installed for it; None: it runs with what its worker has."""
    parameters: Value = None
    priority: int = 0
    owner: str | None = None
    tags: tuple[str, ...] = ()
    meta: dict[str, JSON] | None = None
    """Fields of the user's own, to find it by: see `core.meta`."""
    eta: EpochSeconds | None = None
    delay: Seconds | None = None
    start_before: EpochSeconds | None = None
    """A moment: what has not been started by then never will be."""
    expire: Seconds | None = None
    """The same, in seconds from the store's now."""
    held: bool = False
    key: str | None = None
    """Whose it is (a user, a customer, a licence), for limits of how many run at once."""
    unique: str | None = None
    """While a task holds this word, its queue accepts no other one with it."""
    unique_while: UniqueWhile = "alive"
    unique_for: Seconds = 0.0
    """Seconds for which it goes on holding the word after its end."""
    policy: Policy = Policy()
    notify: tuple[str, ...] = ()
    """Whom to tell of what becomes of it: see `core.notify.notices`."""
    after: tuple[str, ...] = ()
    """Ids of the tasks that must be complete before it, and whose results are its inputs."""
    behind: tuple[str, ...] = ()
    """Ids of tasks that must only have ended, in whatever way: a throttle."""
    flow: str | None = None
    part: str | None = None
    """Its name in the flow; the tasks of a map have one in common."""
    cloned_from: str | None = None
    """The id of the task of which it is a changed copy."""
    submitted_by: str | None = None
    """User, host, program and process of whoever submits it; over HTTP, token and address."""
    source_commit: str | None = None
    generated: bool = False
    """The id was drawn at random, so it need not be looked up first."""
    said: tuple[str, ...] = ()
    """Fields that its queue may have a default for, and which were said."""


class Task(Struct, frozen=True):
    """A task as the store has it; `core.fields` says what of it is in the public record, which is
    in this order.
    """

    id: str
    queue: str
    name: str | None = None
    command: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    parameters: Value = None
    state: State = "pending"
    held: bool = False
    attempt: int = 0
    failures: int = 0
    interruptions: int = 0
    ending: Ending | None = None
    priority: int = 0
    owner: str | None = None
    tags: tuple[str, ...] = ()
    result: Value = None
    error: Fault | None = None
    progress: Progress | None = None
    node: str | None = None
    worker: str | None = None
    pid: int | None = None
    created: EpochSeconds = 0.0
    updated: EpochSeconds = 0.0
    eta: EpochSeconds | None = None
    started_at: EpochSeconds | None = None
    finished_at: EpochSeconds | None = None
    policy: Policy = Policy()
    losses: int = 0
    last_order: int = 0
    returned_from: str | None = None
    paused: bool = False
    """Its process stands still because somebody asked for it."""
    usage: Usage | None = None
    """The newest of its attempt."""
    checkpoint_at: EpochSeconds | None = None
    """When it last saved its work, in whichever attempt; None: never, or that is forgotten."""
    orders: tuple[Order, ...] = ()
    start_before: EpochSeconds | None = None
    """If it has not been started by then, it never will be."""
    finish_before: EpochSeconds | None = None
    """If it has not ended by then, it is ended: what its deadline has come to."""
    flow: str | None = None
    part: str | None = None
    upstreams: int = 0
    """How many tasks it was to wait for; `Store.upstreams` names them."""
    dependents: bool = False
    """Others wait, or have waited, for it."""
    key: str | None = None
    unique: str | None = None
    unique_while: UniqueWhile = "alive"
    unique_for: Seconds = 0.0
    notify: tuple[str, ...] = ()
    """Whom to tell of what becomes of it, besides those whom its queue tells."""
    near_node: str | None = None
    """The node that has it for itself while it is pending, and until when."""
    near_until: EpochSeconds | None = None
    fingerprint: str | None = None
    """While it is failed: the same for all that failed in the same way. See
    `core.insight.fingerprint`.
    """
    cloned_from: str | None = None
    code: Code | None = None
    pinned: Pinned | None = None
    """What its `code` has become, once and for all attempts."""
    lock: str | None = None
    """The text of the lock whose hash `pinned` has: exact versions, with the hashes of files."""
    meta: dict[str, JSON] | None = None
    submitted_by: str | None = None
    source_commit: str | None = None
    metrics: dict[str, Metric] | None = None
    """What the last attempt that reported any has come to, by name."""

    @property
    def kind(self) -> str:
        """What the task runs: its name, else what its command does, else nothing."""
        return kind_of(self.name, self.command)

    @property
    def program(self) -> str:
        """Its name, else the first word of its command, else nothing."""
        return self.name or (self.command[0] if self.command else "")

    @property
    def cancel_wanted(self) -> bool:
        # Hardly any has orders, and every one is asked.
        return bool(self.orders) and any(order.verb == "cancel" for order in self.orders)


class Submitted(Struct, frozen=True):
    """The task that is there now, and whether this submit made it."""

    task: Task
    fresh: bool
    purged: bool = False
    """It was here, has ended and is gone: only its id, queue, state and times are known."""


class AttemptNews(Struct, frozen=True):
    """What the record of the attempt gets: its process, or how it ended."""

    pid: int | None = None
    ending: Ending | None = None
    error: Fault | None = None


class Effect(Struct, frozen=True, kw_only=True):
    """All that a change does to a task. A store applies it, and knows no rules of a task's life.

    Many changes may share one: nothing in it is to be altered.
    """

    to: State
    sets: Mapping[str, Any]
    """Fields of the Task and what they become; None clears one. What is not named stays."""
    times: Mapping[str, float]
    """Fields that become the store's now and so many seconds."""
    moment: Literal["started_at", "finished_at"] | None = None
    """The field that says when it was: `ago` before the store's now, but see `Store.commit`."""
    event: str | None = None
    """What the history says, and those who watch hear; None: nothing."""
    note: str | None = None
    attempt: AttemptNews | None = None
    hook_words: tuple[str, ...] = ()
    """What it means to hooks, the word that names the notice first; none: they hear nothing."""
    waits: tuple[str, ...] | UnsetType = UNSET
    """Ids that it waits for from now on."""
    ends: bool = False
    """It has ended: those that run after it are to hear of that."""
    ends_run: bool = False
    """It gives back its place among those that run, and what it used counts."""
    enters_lane: bool = False
    """It stands among what can be taken, unless held: its place there is worked out anew."""
    forgets_checkpoint: bool = False
    """What it saved in earlier attempts is gone."""
    wakes_queue: bool = False
    """Workers of its queue should look again: for work, or for when the next is due."""
    wakes_worker: bool = False
    """Its worker has something to hear."""


class Change(Struct, frozen=True, kw_only=True):
    """One step of one task: what must still hold, and the effect it has then.

    Made by `lifecycle.decide`, applied by `Store.commit`.
    """

    id: str
    state: State
    worker: str | None
    attempt: int
    last_order: int
    queue: str | None = None
    """Where the task is, if whoever decided knew: a store may then do many at once."""
    late: bool = False
    """Applies also if the task was returned from this very attempt and not touched since."""
    losses_before: int | None = None
    """It was decided from so many losses, and applies only if they are still these: news that came
    meanwhile may have set them to 0. None: whatever they are."""
    unique_is_free: bool = False
    """Applies only if no other task holds its unique word."""

    effect: Effect
    result: Value | UnsetType = UNSET
    """Stands beside the effect, so that tasks that ended alike can share that."""
    parameters: Value | UnsetType = UNSET
    """New ones, if somebody edited them."""
    checkpoint: bytes | None = None
    """What the attempt saved last, if no beat could bring it."""
    ago: float = 0.0
    """How many seconds ago the start or the end was of which it tells, as measured where it was:
    what waits for a store that is away does not run meanwhile."""
    happening: Any = None
    """What it was decided from, for a store that is behind a server: that decides itself."""

    @property
    def to(self) -> State:
        """The state that the task comes into, which may be the one it is in."""
        return self.effect.to


class Attempt(Struct, frozen=True, kw_only=True):
    """One try at a task; `ending` is None while it goes on."""

    attempt: int
    worker: str | None = None
    node: str | None = None
    pid: int | None = None
    reserved_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    ending: Ending | None = None
    error: Fault | None = None
    usage: Usage | None = None
    """The newest."""


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened to a task: a state it came into, or what was done to it.

    What happened to a queue as a whole (`paused`, `resumed`, `limited`, `retention`), or to a
    schedule of its tasks (`schedule`), has an empty id.
    """

    number: int
    at: float
    id: str
    queue: str
    event: str
    attempt: int = 0
    worker: str | None = None
    note: str | None = None


class LogPiece(Struct, frozen=True):
    """Bytes of an attempt's output from the offset `start` on."""

    start: int
    data: bytes
    at: float | None = None
    """When it came to the store."""


class Checkpoint(Struct, frozen=True):
    """The newest state that a task saved, for its next attempt."""

    attempt: int
    at: float
    data: bytes


class Report(Struct, frozen=True, kw_only=True):
    """News of a running attempt, carried by a beat."""

    id: str
    attempt: int
    progress: Progress | None = None
    checkpoint: bytes | None = None
    log: tuple[LogPiece, ...] = ()
    usage: Usage | None = None
    statistics: Statistics | None = None
    """All that the attempt has reported of itself so far."""
    paused: bool | None = None
    """Whether its process stands still on demand; None: as before."""
    acknowledged: int = 0
    """Orders up to this number have been carried out."""


class Filter(Struct, frozen=True, kw_only=True):
    """Which tasks: all conditions hold at once, an empty tuple or None asks nothing."""

    ids: tuple[str, ...] = ()
    prefix: str | None = None
    queues: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    name: str | None = None
    owner: str | None = None
    key: str | None = None
    unique: str | None = None
    tags: tuple[str, ...] = ()
    worker: str | None = None
    held: bool | None = None
    since: float | None = None
    until: float | None = None
    flow: str | None = None
    fingerprint: str | None = None
    """Failed, with this fingerprint."""
    search: str | None = None
    """Words, each of which is somewhere in the task: see `core.search`."""
    has_files: bool = False
    """Files were sent with it."""
    meta: tuple[str, ...] = ()
    """Fields of its own that are so, as in `team=vision`: see `core.json_match`."""
    where: tuple[str, ...] = ()
    """The same of its parameters."""

    def __post_init__(self) -> None:
        """Name each once: stores look once for each that is named."""
        for name in ("ids", "queues", "states", "tags", "meta", "where"):
            named = getattr(self, name)
            if len(named) > 1:
                force_setattr(self, name, tuple(dict.fromkeys(named)))


class Page(Struct, frozen=True):
    """Some tasks, newest first, and where to go on (None: that was all)."""

    tasks: tuple[Task, ...]
    next: str | None = None
