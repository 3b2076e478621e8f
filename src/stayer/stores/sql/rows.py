"""Rows of the tables to records and back. The only place that knows what a column holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.insight.kind import kind_of
from stayer.core.model import (
    STATES,
    Event,
    Fault,
    Handles,
    Kept,
    NewTask,
    Order,
    Policy,
    Progress,
    QueueInfo,
    Rate,
    State,
    Task,
    Usage,
    Worker,
    WorkerState,
)
from stayer.core.notify import notices
from stayer.core.ordering.rate_limit import Bucket
from stayer.core.schedules.model import Schedule, unpacked_task
from stayer.core.units import CENTURY
from stayer.stores.sql import history
from stayer.stores.sql.transaction import Cell, Row, Transaction

T = TypeVar("T")

TASK_COLUMNS = (
    "id, queue, name, command, cwd, env, parameters, state, held, attempt, failures, "
    "interruptions, ending, priority, owner, tags, result, error, progress, node, worker, pid, "
    "created, updated, eta, started_at, finished_at, policy, losses, orders, last_order, "
    "returned_from, paused, usage, start_before, flow, part, upstreams, dependents, "
    'key, "unique", unique_while, unique_for, notify, checkpoint_at, '
    "near_node, near_until, fingerprint, seq"
)
"""In the order of Task's fields, `seq` behind."""
SCHEDULE_COLUMNS = (
    "name, cron, zone, task, overlap, catch_up, jitter, paused, origin, next, created, updated, "
    "last, last_task, waiting"
)

_USUAL = ("id", "name", "parameters", "attempt", "priority", "owner", "created", "last_order")
_KNOWN = (
    "queue", "state", "held", "ending", "node", "worker", "pid", "updated", "started_at",
    "finished_at", "returned_from", "paused", "usage", "seq", "unique_while", "fingerprint",
)  # fmt: skip
"""What a task that was just reserved has for certain (see the statement `reserve`), or only if it
has something else that is unusual."""
_LONG = 8192
_SHORT = f"typeof(parameters) = 'text' AND length(parameters) < {_LONG}"
FIRST_CREATED = "(SELECT first.created FROM stayer_tasks AS first WHERE first.seq = ?2)"
_AS_JSON = {
    "parameters": f"iif({_SHORT}, parameters, NULL)",
    # SQLite itself would round it, and those that came together have it in common.
    "created": f"iif(created = {FIRST_CREATED}, NULL, format('%!.17g', created))",
    # What others wrote here may be bytes, of which JSON knows nothing.
    **{column: f"CAST({column} AS TEXT)" for column in ("id", "name", "owner")},
}
RESERVED_COLUMNS = ", ".join(("seq", *(_AS_JSON.get(column, column) for column in _USUAL)))
"""The usual ones, as SQLite can put them into JSON."""
_COUNTS = ("failures", "interruptions", "losses", "upstreams", "dependents")
UNUSUAL = ", ".join(
    (
        f"nullif({' | '.join(_COUNTS)}, 0)",
        "nullif(unique_for, 0)",
        f"iif({_SHORT}, NULL, parameters)",
        *(
            column
            for column in TASK_COLUMNS.split(", ")
            if column not in {*_USUAL, *_KNOWN, *_COUNTS, "unique_for"}
        ),
    )
)
"""What few tasks have; all null where one has nothing of it."""

_words = msgspec.json.Decoder(tuple[str, ...])
_handles = msgspec.json.Decoder(Handles)
_environment = msgspec.json.Decoder(dict[str, str])
_fault = msgspec.json.Decoder(Fault)
_progress = msgspec.json.Decoder(Progress)
_usage = msgspec.json.Decoder(Usage)
_policy = msgspec.json.Decoder(Policy)
_limits = msgspec.json.Decoder(dict[str, int])
_retention = msgspec.json.Decoder(dict[Kept, float])
_orders = msgspec.json.Decoder(tuple[Order, ...])
_seqs = msgspec.json.Decoder(list[int])
_rows = msgspec.json.Decoder(
    list[tuple[int, str, str | None, str | None, int, int, str | None, str | None, int, int]]
)
_encoder = msgspec.json.Encoder()
_DEFAULT_POLICY = Policy()


def kind_from_cells(name: str | None, command: str | None) -> str:
    """What a task of this name and command runs."""
    return kind_of(name, None if command is None else _decoded(_words, command, ("",)))


_Time = Annotated[float, msgspec.Meta(ge=-1e13, le=1e13)]
"""A moment that the calendar knows, or a length of time."""
_KINDS: dict[str, Any] = {
    "text": str, "integer": int, "real": _Time, "any": Any, "bytes": bytes,
    "text?": str | None, "integer?": int | None, "real?": _Time | None,
}  # fmt: skip


def form(*kinds: str) -> type[msgspec.Struct]:
    """What the cells of a row have to be, such as `4 text?`. Whoever writes to the tables by hand
    may put anything there, and a cell of another kind would do harm far from here.
    """
    fields: list[tuple[str, Any]] = []
    for each in kinds:
        number, _, kind = each.rpartition(" ")
        fields += [(f"f{len(fields) + more}", _KINDS[kind]) for more in range(int(number or 1))]
    return msgspec.defstruct("Form", fields, array_like=True, gc=False)


def checked(row: Row, form: type[msgspec.Struct]) -> Row:
    """The row, if it has that form; else msgspec.ValidationError."""
    msgspec.convert(row, form)
    return row


_TASK = form(
    "2 text", "4 text?", "any", "text", "4 integer", "text?", "integer", "2 text?", "any",
    "4 text?", "integer?", "real", "4 real?", "text?", "integer", "text?", "integer", "text?",
    "integer", "text?", "real?", "2 text?", "2 integer", "2 text?", "text", "real", "text?",
    "real?", "text?", "real?", "text?", "integer",
)  # fmt: skip


def task_from_row(row: Row) -> Task:
    """A row of TASK_COLUMNS. One long expression: this is the hottest line of every reserve."""
    msgspec.convert(row, _TASK)
    (
        id, queue, name, command, cwd, env, parameters, state, held, attempt, failures,
        interruptions, ending, priority, owner, tags, result, error, progress, node, worker, pid,
        created, updated, eta, started_at, finished_at, policy, losses, orders, last_order,
        returned_from, paused, usage, start_before, flow, part, upstreams, dependents, key, unique,
        unique_while, unique_for, notify, checkpoint_at, near_node, near_until, fingerprint, _,
    ) = row  # fmt: skip
    return Task(
        id, queue, name,
        None if command is None else _decoded(_words, command, ("",)),
        cwd,
        None if env is None else _decoded(_environment, env, None),
        None if parameters is None else codec.unpack(parameters),
        state, held != 0, attempt, failures, interruptions, ending, priority, owner,
        () if tags is None else _decoded(_words, tags, ()),
        None if result is None else codec.unpack(result),
        None if error is None else _decoded(_fault, error, None),
        None if progress is None else _decoded(_progress, progress, None),
        node, worker, pid, created, created if updated is None else updated, eta, started_at,
        finished_at,
        _DEFAULT_POLICY if policy is None else _decoded(_policy, policy, _DEFAULT_POLICY),
        losses,
        () if orders is None else _decoded(_orders, orders, ()),
        last_order, returned_from, paused != 0,
        None if usage is None else _decoded(_usage, usage, None),
        start_before, flow, part, upstreams, dependents != 0, key, unique, unique_while, unique_for,
        () if notify is None else hooks_from_cell(notify), checkpoint_at, near_node, near_until,
        fingerprint,
    )  # fmt: skip


def by_seq(tx: Transaction, seqs: Sequence[int]) -> list[Task]:
    """Tasks by their number in the table, in the order asked for."""
    if not seqs:
        return []
    rows = {row[-1]: row for row in tx.all("get.seqs", tx.array(seqs))}
    return [task_from_row(rows[seq]) for seq in seqs]


def just_reserved(
    tx: Transaction, seqs: Sequence[int], queue: str, worker: str, node: str
) -> list[Task]:
    """As `by_seq`, of tasks of one queue that this worker took just now. Most have little more than
    a name and parameters, and reading all columns would be half the work of a reserve.
    """
    tasks: dict[int, Task] = {}
    unusual: list[int] = []
    rows, first_created = _read_reserved(tx, seqs)
    for seq, id, name, parameters, attempt, priority, owner, created, last_order, usual in rows:
        if not usual:
            unusual.append(seq)
            continue
        tasks[seq] = Task(
            id, queue, name, None, None, None,
            None if parameters is None else codec.unpack(parameters),
            "reserved", False, attempt, 0, 0, None, priority, owner, (), None, None, None, node,
            worker, None, first_created if created is None else float(created), tx.now, None, None,
            None, _DEFAULT_POLICY, 0, (), last_order,
        )  # fmt: skip
    if len(tasks) < len(seqs):
        unusual = unusual or [seq for seq in seqs if seq not in tasks]
        tasks.update(zip(unusual, by_seq(tx, unusual), strict=True))
    return [tasks[seq] for seq in seqs]


def _read_reserved(tx: Transaction, seqs: Sequence[int]) -> tuple[Sequence[Any], Cell]:
    """Nothing if one of them is not what it seems: then they are read with more care. And when the
    first was made, which is null in the others that were made then.
    """
    row = tx.one("reserve.read", tx.array(seqs), seqs[0])
    try:
        return ([], None) if row is None else (_rows.decode(row[0]), row[1])
    except (msgspec.DecodeError, UnicodeError):
        return [], None


def seqs_from_cell(cell: Cell) -> list[int]:
    """The answer of `reserve.next`."""
    return _seqs.decode(cell)


def _decoded(decoder: msgspec.json.Decoder[T], cell: Cell, otherwise: T | None) -> Any:
    """What a column holds. One bad row, written by hand, must not keep a queue from being read."""
    try:
        return decoder.decode(cell)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return otherwise


def json_cell(value: object) -> str | None:
    """JSON text for a column; what is empty or all default is null."""
    if value is None or value in ((), _DEFAULT_POLICY):
        return None
    return _encoder.encode(value).decode()


class Born(NamedTuple):
    """How new tasks that were asked for alike come into the world."""

    at: float
    state: State
    eta: float | None
    start_before: float | None
    upstreams: int
    dependents: bool


likeness: Callable[[NewTask], tuple[Any, ...]] = attrgetter(
    *(name for name in NewTask.__struct_fields__ if name not in ("id", "parameters", "generated"))
)
"""What makes two new tasks alike."""


def born(new: NewTask, now: float, *, waits: bool = False, dependents: bool = False) -> Born:
    """This one, and those that are like it."""
    eta = now + new.delay if new.delay is not None else new.eta
    start_before = now + new.expire if new.expire is not None else new.start_before
    state: State = "scheduled" if eta is not None and eta > now else "pending"
    return Born(
        now,
        "waiting" if waits else state,
        None if eta is None else float(eta),
        None if start_before is None else float(start_before),
        len(new.after) + len(new.behind),
        dependents,
    )


def cells_in_common(new: NewTask, born: Born) -> Row:
    """The parameters of the statement `submit` that are not of one task alone."""
    return (
        history.after_number(born.at, born.state), new.queue, new.name, json_cell(new.command),
        new.cwd, json_cell(new.env), born.state, new.held, new.priority, new.owner,
        json_cell(new.tags), born.at, born.eta, json_cell(new.policy), born.start_before, new.flow,
        new.part, born.upstreams, born.dependents, new.key, new.unique, new.unique_while,
        new.unique_for, json_cell(new.notify),
    )  # fmt: skip


def task_from_new(new: NewTask, born: Born) -> Task:
    """The task as it will be there."""
    at, state, eta, start_before, upstreams, dependents = born
    return Task(
        new.id, new.queue, new.name, new.command, new.cwd, new.env, new.parameters,
        state, new.held, 0, 0, 0, None, new.priority,
        new.owner, new.tags, None, None, None, None, None, None, at, at, eta, None, None,
        new.policy, 0, (), 0, None, False, None, start_before, new.flow, new.part, upstreams,
        dependents, new.key, new.unique, new.unique_while, new.unique_for, new.notify,
    )  # fmt: skip


_PURGED = form("3 text", "real", "real?", "real")


def task_from_purged(row: Row) -> Task:
    """What is left of a purged task."""
    id, queue, state, created, finished_at, at = checked(row, _PURGED)
    return Task(
        id=id, queue=queue, state=state, created=created, updated=at, finished_at=finished_at
    )


def fault_from_cell(cell: Cell) -> Fault | None:
    """What went wrong."""
    found: Fault | None = None if cell is None else _decoded(_fault, cell, None)
    return found


def usage_from_cell(cell: Cell) -> Usage:
    """A row of the statement `usage`; nothing, if it can't be read."""
    found: Usage = _decoded(_usage, cell, Usage())
    return found


_EVENT = form("integer", "real", "3 text", "integer", "2 text?")


def event_from_row(row: Row) -> Event:
    """A row of the statement `watch`."""
    number, at, id, queue, event, attempt, worker, note = checked(row, _EVENT)
    return Event(
        number=number, at=at, id=id, queue=queue, event=event, attempt=attempt, worker=worker,
        note=note,
    )  # fmt: skip


def limits_from_cell(cell: Cell) -> dict[str, int]:
    """The column `key_limits`."""
    found: dict[str, int] = {} if cell is None else _decoded(_limits, cell, {})
    return found


_QUEUE = form(
    "text", "integer", "integer?", "text?", "integer?", "text?", "integer?", "3 real?", "2 text?",
    "9 integer", "real?",
)  # fmt: skip


def queue_from_row(row: Row, now: float) -> QueueInfo:
    """A row of the statement `queues`."""
    (
        name, paused, limit, retention, key_limit, key_limits, rate, rate_per, tokens, tokens_at,
        fair, notify, *counts, workers, oldest,
    ) = checked(row, _QUEUE)  # fmt: skip
    bucket = bucket_from_cells(rate, rate_per, tokens, tokens_at)
    return QueueInfo(
        name=name,
        paused=paused != 0,
        limit=limit,
        key_limit=key_limit,
        key_limits=limits_from_cell(key_limits),
        rate=None if bucket is None else bucket.rate,
        next_start=None if bucket is None else bucket.next(now),
        fair=fair,
        notify=hooks_from_cell(notify),
        counts=dict(zip(STATES, counts, strict=True)),
        workers=workers,
        oldest=oldest,
        retention=retention_from_cell(retention),
    )


def bucket_from_cells(rate: Cell, per: Cell, tokens: Cell, at: Cell) -> Bucket | None:
    """What a queue's rate leaves; None if it has none, or none that makes sense."""
    cells = (rate, per, tokens, at)
    if rate is None or not all(each is None or isinstance(each, int | float) for each in cells):
        return None
    if per is None or not (rate >= 1 and 0 < per <= CENTURY):
        return None
    return Bucket(Rate(rate, per), float(rate) if tokens is None else tokens, at)


def hooks_from_cell(cell: Cell) -> tuple[str, ...]:
    """A column `notify`. Rows written by hand may leave out the words in front, and be wrong."""
    hooks: list[str] = []
    for written in () if cell is None else _decoded(_words, cell, ()):
        with suppress(BadInput):
            hooks.append(notices.parse(written))
    return tuple(hooks)


def retention_from_cell(cell: Cell) -> dict[Kept, float]:
    """The column `retention`."""
    found: dict[Kept, float] = {} if cell is None else _decoded(_retention, cell, {})
    return found


_SCHEDULE = form(
    "6 text", "real", "integer", "text?", "real?", "2 real", "real?", "text?", "integer"
)


def schedule_from_row(row: Row) -> Schedule:
    """A row of the statement `schedules`."""
    (
        name, cron, zone, task, overlap, catch_up, jitter, paused, origin, next, created, updated,
        last, last_task, waiting,
    ) = checked(row, _SCHEDULE)  # fmt: skip
    return Schedule(
        name=name, cron=cron, zone=zone, task=unpacked_task(task), overlap=overlap,
        catch_up=catch_up, jitter=jitter, paused=paused != 0, origin=origin, next=next,
        created=created, updated=updated, last=last, last_task=last_task,
        waiting=waiting != 0,
    )  # fmt: skip


_WORKER = form(
    "2 text", "integer", "text", "integer", "text", "integer", "real", "integer", "text?",
    "integer", "3 real", "integer",
)  # fmt: skip


def worker_from_row(row: Row, now: float) -> Worker:
    """A row of the statement `workers`."""
    (
        id, node, pid, queues, slots, version, draining, lease, keeps, handles, number, started_at,
        beat_at, lease_end, running,
    ) = checked(row, _WORKER)  # fmt: skip
    state: WorkerState = "PROCESSING" if running else "IDLE"
    if draining:
        state = "DRAINING"
    if lease_end < now:
        state = "STALE"
    return Worker(
        id=id, node=node, pid=pid, queues=_words.decode(queues), slots=slots, version=version,
        draining=draining != 0, lease=lease, keeps=keeps != 0,
        handles=None if handles is None else _handles.decode(handles), number=number,
        started_at=started_at, beat_at=beat_at, running=running, state=state,
    )  # fmt: skip


def orders_from_cell(cell: Cell) -> tuple[Order, ...]:
    """The column `orders`."""
    return () if cell is None else _decoded(_orders, cell, ())


def cells(change_field: str, value: Any) -> Cell:
    """What a field of a Change is as a column."""
    match change_field:
        case "result":
            return codec.pack(value, "result", codec.RESULT_LIMIT)
        case "error" | "orders" | "policy" | "notify":
            return json_cell(value)
        case _:
            return value
