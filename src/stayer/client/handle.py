"""A task seen from outside: its record, its result, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Literal, NoReturn, Self, TypeVar, Unpack, cast, overload

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from stayer import config
from stayer.client.submit import Options, RetryOptions, build_edits
from stayer.client.values import Duration, Storable, seconds
from stayer.core.errors import TaskCancelled, TaskFailed, WaitTimeout
from stayer.core.model import (
    FINISHED,
    JSON,
    Attempt,
    Code,
    Ending,
    Event,
    Fault,
    Metric,
    Order,
    Pinned,
    Policy,
    Progress,
    State,
    Statistics,
    Task,
    UniqueWhile,
    Usage,
    Value,
    WhenFailed,
)
from stayer.service.control import tasks as control
from stayer.service.control import waits
from stayer.service.control.statistics import find_statistics
from stayer.service.operator import operator_of
from stayer.store import Store

V = TypeVar("V")
R_co = TypeVar("R_co", covariant=True)


class _Field(Generic[V]):
    """Shows one field of the record; the `__slots__` of a view keep it from being written."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...
    @overload
    def __get__(self, view: TaskView, owner: type) -> V: ...
    def __get__(self, view: TaskView | None, owner: type) -> Self | V:
        if view is None:
            return self
        value: V = getattr(self._home(view.record), self._name)
        return value

    def _home(self, record: Task) -> Task | Policy:
        return record


class _Decided(_Field[V]):
    """Shows one field of the record's policy."""

    def _home(self, record: Task) -> Task | Policy:
        return record.policy


class TaskView:
    """The fields of a task's record (`RECORD` and `POLICY` of `core.fields`), as they were when it
    was last read. A test compares the two.
    """

    __slots__ = ()

    id = _Field[str]()
    queue = _Field[str]()
    name = _Field[str | None]()
    command = _Field[tuple[str, ...] | None]()
    cwd = _Field[str | None]()
    env = _Field[dict[str, str] | None]()
    parameters = _Field[Value]()
    state = _Field[State]()
    held = _Field[bool]()
    attempt = _Field[int]()
    failures = _Field[int]()
    interruptions = _Field[int]()
    ending = _Field[Ending | None]()
    priority = _Field[int]()
    owner = _Field[str | None]()
    tags = _Field[tuple[str, ...]]()
    meta = _Field[dict[str, JSON] | None]()
    error = _Field[Fault | None]()
    progress = _Field[Progress | None]()
    node = _Field[str | None]()
    worker = _Field[str | None]()
    pid = _Field[int | None]()
    created = _Field[float]()
    updated = _Field[float]()
    eta = _Field[float | None]()
    started_at = _Field[float | None]()
    finished_at = _Field[float | None]()
    key = _Field[str | None]()
    unique = _Field[str | None]()
    unique_while = _Field[UniqueWhile]()
    unique_for = _Field[float]()
    code = _Field[Code | None]()
    pinned = _Field[Pinned | None]()
    notify = _Field[tuple[str, ...]]()
    fingerprint = _Field[str | None]()
    paused = _Field[bool]()
    usage = _Field[Usage | None]()
    metrics = _Field[dict[str, Metric] | None]()
    checkpoint_at = _Field[float | None]()
    orders = _Field[tuple[Order, ...]]()
    start_before = _Field[float | None]()
    finish_before = _Field[float | None]()
    flow = _Field[str | None]()
    part = _Field[str | None]()
    upstreams = _Field[int]()
    cloned_from = _Field[str | None]()
    submitted_by = _Field[str | None]()
    source_commit = _Field[str | None]()
    retries = _Decided[int]()
    retry_wait = _Decided[float]()
    retry_backoff = _Decided[float]()
    retry_cap = _Decided[float]()
    retry_on = _Decided[tuple[str, ...]]()
    give_up_on = _Decided[tuple[str, ...]]()
    deadline = _Decided[float | None]()
    time_limit = _Decided[float | None]()
    silence_limit = _Decided[float | None]()
    memory_limit = _Decided[int | None]()
    grace = _Decided[float | None]()
    fence = _Decided[Literal["freeze", "kill"] | None]()
    when_failed = _Decided[WhenFailed]()
    time_growth = _Decided[float]()
    time_most = _Decided[float | None]()
    memory_growth = _Decided[float]()
    memory_most = _Decided[int | None]()
    near = _Decided[str | None]()
    near_wait = _Decided[float | None]()
    policy = _Field[Policy]()
    kind = _Field[str]()
    cancel_wanted = _Field[bool]()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of queue {self.queue}: {self.state}>"

    def _repr_html_(self) -> str:
        """Draw it, for a notebook."""
        from stayer.client.draw_html import draw

        return draw(self.record)

    @property
    def record(self) -> Task:
        """The task as it was when last read."""
        raise NotImplementedError

    @property
    def finished(self) -> bool:
        """Whether it had ended, well or badly, when last read."""
        return self.state in FINISHED


class TaskHandle(TaskView, Generic[R_co]):
    """A task as it was when last read, with the verbs that change it and read it again."""

    __slots__ = ("_convert", "_fresh", "_record", "_store")

    def __init__(
        self,
        store: Store,
        record: Task,
        convert: Callable[[Value], R_co],
        fresh: bool | None = None,
    ) -> None:
        self._store = store
        self._record = record
        self._convert = convert
        self._fresh = fresh

    @property
    def fresh(self) -> bool | None:
        """Whether the submit that gave this handle made the task, or it was there already; None:
        it is not from a submit.
        """
        return self._fresh

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a TaskHandle stays in its process: send its `record` (or its id) to the other one, "
            "and give that to the get_processor (get_task) of a client there"
        )

    @property
    def record(self) -> Task:
        """The task as it was when last read."""
        return self._record

    @property
    def result(self) -> R_co | None:
        """What it returned; None until it is complete. `wait` waits for it."""
        return self._convert(self._record.result) if self.state == "complete" else None

    def refresh(self) -> Self:
        """Read the task again."""
        self._record = control.get(self._store, self.id)
        return self

    def ends_within(self, timeout: Duration | None = None) -> bool:
        """Wait until it has ended, well or badly; whether it has."""
        limit = None if timeout is None else seconds(timeout)
        for record in waits.wait(self._store, [self.id], limit):
            self._record = record
        return self.finished

    def wait(self, timeout: Duration | None = None) -> R_co:
        """Wait for the result; else raises TaskFailed, TaskCancelled or WaitTimeout."""
        if not self.ends_within(timeout):
            raise WaitTimeout(f"task {self.id} has not ended in the time given: it goes on")
        if self.state == "failed":
            raise TaskFailed(self.id, self.error)
        if self.state == "cancelled":
            raise TaskCancelled(f"task {self.id} was cancelled")
        return self._convert(self._record.result)

    def cancel(self, grace: Duration | None = None) -> Self:
        """Cancel it: at once if it waits, else by asking whoever runs it to stop."""
        limit = None if grace is None else seconds(grace)
        self._record = operator_of(self._store).cancel(self.id, limit)
        return self

    def declare_complete(self, result: Storable = None) -> Self:
        """Say that it is done, with this result, whatever became of it here: one that waits, or
        that has ended otherwise. Refused while it runs: cancel it first.
        """
        self._record = operator_of(self._store).complete(self.id, cast(Value, result))
        return self

    def declare_failed(self, error: str = "") -> Self:
        """Say that it has failed, whatever became of it here; it is not retried by itself. Refused
        while it runs: cancel it first.
        """
        self._record = operator_of(self._store).fail(self.id, error)
        return self

    def retry(
        self,
        *,
        from_start: bool = False,
        now: bool = False,
        code: Literal["pinned", "latest"] | Code | None = "pinned",
        parameters: Storable | UnsetType = UNSET,
        set_parameters: Mapping[str, JSON] | None = None,
        **options: Unpack[RetryOptions],
    ) -> Self:
        """Run it again, now that it has ended: from its last checkpoint, or from the start. One
        that was cancelled before its eta waits for that, unless it is to run `now`. With the
        `latest` code it runs what it asks for as that is now, not what it was pinned to. The rest
        changes what it does from now on, as in `edit`.
        """
        changes = cast(Options, dict(options))
        if not isinstance(code, str):
            changes["code"] = code
        edits = build_edits(parameters, set_parameters, changes)
        self._record = operator_of(self._store).retry(
            self.id, from_start=from_start, now=now, latest_code=code == "latest", edits=edits
        )
        return self

    def edit(
        self,
        *,
        parameters: Storable | UnsetType = UNSET,
        set_parameters: Mapping[str, JSON] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Change what it is to do while it waits: its parameters, or single ones of them, and what
        else a submission may say; None is the default. Refused once it is taken.
        """
        edits = build_edits(parameters, set_parameters, options)
        self._record = operator_of(self._store).edit(self.id, edits)
        return self

    def clone(
        self,
        *,
        id: str | None = None,
        queue: str | None = None,
        parameters: Storable | UnsetType = UNSET,
        set_parameters: Mapping[str, JSON] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Submit a task like it, with changes as in `edit`, and get that. Results, times, attempts
        and checkpoints are not copied; its owner is whoever clones, unless `owner` says otherwise.
        """
        named = {"id": id, "queue": queue}
        edits = build_edits(parameters, set_parameters, options)
        settings = config.load({})
        named["submitted_by"] = settings.submitter
        fields = {**edits.fields, **{name: each for name, each in named.items() if each}}
        answer = operator_of(self._store).clone(
            self.id, replace(edits, fields=fields), owner=settings.owner
        )
        return type(self)(self._store, answer.task, self._convert, answer.fresh)

    def hold(self) -> Self:
        """Keep it from being taken until it is released."""
        self._record = operator_of(self._store).hold(self.id)
        return self

    def release(self) -> Self:
        """Let it be taken again."""
        self._record = operator_of(self._store).release(self.id)
        return self

    def set_meta(self, /, **fields: JSON) -> Self:
        """Set fields of your own, whatever state it is in: `set_meta(team="vision")`. Others stay
        as they are; None takes one away.
        """
        self._record = operator_of(self._store).set(self.id, meta=fields)
        return self

    def delete(self) -> None:
        """Forget it, now that it has ended; its id stays refused for a while."""
        control.delete(self._store, self.id)

    def attempts(self) -> list[Attempt]:
        """List every try at it, oldest first."""
        return self._store.attempts(self.id)

    def statistics(self, attempt: int | None = None) -> Statistics:
        """Read what an attempt has reported of itself, its metrics and steps; by default the
        last one that reported something.
        """
        return find_statistics(self._store, self._record, attempt)[1]

    def events(self) -> list[Event]:
        """List all that happened to it, oldest first."""
        return self._store.events(self.id)


def as_stored(value: Value) -> Value:
    """Return the result just as the store has it, for a task whose function is not known here."""
    return value
