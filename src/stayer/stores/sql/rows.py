"""Rows of the tables to records and back. The only place that knows what a column holds."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from stayer.core import codec, generated
from stayer.core.decoding import convert, converter, json_decoder
from stayer.core.errors import BadInput
from stayer.core.fields import STORED, Field, Kind
from stayer.core.insight.kind import kind_of
from stayer.core.model import (
    STATES,
    Event,
    Fault,
    NewTask,
    Order,
    Policy,
    State,
    Statistics,
    Task,
    Usage,
    Value,
)
from stayer.core.notify import notices
from stayer.core.ordering.rate_limit import Bucket
from stayer.core.queue_model import Kept, QueueInfo, Rate
from stayer.core.schedules.model import Schedule, unpack_task
from stayer.core.submit.defaults import read_defaults
from stayer.core.submit.fresh import BY_STORE, moments
from stayer.core.units import CENTURY
from stayer.core.worker_model import Handles, Worker, WorkerOrder, WorkerState
from stayer.stores.sql import history
from stayer.stores.sql.transaction import FARTHEST, Cell, Row, Transaction

T = TypeVar("T")

_RESERVED_WORDS = frozenset(("unique", "lock"))
"""Fields that are called as something in SQL is; what only one database takes for its own is among
the `words` of its dialect. The others are not quoted: SQLite takes a quoted name that it does not
know for a text, and says nothing."""


def column(field: str) -> str:
    """The column of a field."""
    return f'"{field}"' if field in _RESERVED_WORDS else field


TASK_COLUMNS = ", ".join((*map(column, Task.__struct_fields__), "seq"))
"""In the order of Task's fields, `seq` behind."""
FIELD_COLUMNS = ", ".join(map(column, Task.__struct_fields__))
FIELD_VALUES = ", ".join(f"?{number}" for number in range(6, 6 + len(Task.__struct_fields__)))
"""Those alone, and their values in the statement `load.task`."""
SCHEDULE_COLUMNS = (
    "name, cron, zone, task, overlap, catch_up, jitter, paused, origin, next, created, updated, "
    "last, last_task, waiting"
)

_CELL: dict[Kind, str] = {
    "whole": "integer", "flag": "integer", "bytes": "integer", "number": "real", "moment": "real",
    "seconds": "real", "value": "any",
}  # fmt: skip
"""What cells of a kind hold, if not text; lists, variables and structs are JSON."""
_AS_JSON_TEXT: tuple[Kind, ...] = ("words", "variables", "object", "struct", "structs")


def cell_kind(field: Field) -> str:
    """What the cells of a field hold: text, integer, real, or any of them."""
    return _CELL.get(field.kind, "text")


def never_null(field: Field) -> bool:
    """Whether the column always has a value: the default has a null in its place only where it is
    None, or JSON. (`updated` is null in rows written by hand, until a trigger has seen them.)
    """
    kinds = ("value", *_AS_JSON_TEXT)
    return not field.optional and field.kind not in kinds and field.name != "updated"


def literal(value: str | float) -> str:
    """A value as SQL has it."""
    return f"'{value}'" if isinstance(value, str) else f"{float(value):g}"


_words = json_decoder(tuple[str, ...])
_handles = json_decoder(Handles)
_worker_order = json_decoder(WorkerOrder)
_fault = json_decoder(Fault)
_usage = json_decoder(Usage)
_statistics = json_decoder(Statistics)
_limits = json_decoder(dict[str, int])
_retention = json_decoder(dict[Kept, float])
_orders = json_decoder(tuple[Order, ...])
_encoder = msgspec.json.Encoder()
_DEFAULT_POLICY = Policy()


def kind_from_cells(name: str | None, command: str | None) -> str:
    """What a task of this name and command runs."""
    return kind_of(name, None if command is None else _decoded(_words, command, ("",)))


_Time = Annotated[float, msgspec.Meta(ge=-FARTHEST, le=FARTHEST)]
"""A moment that the calendar knows, or a length of time."""
_KINDS: dict[str, Any] = {
    "text": str, "integer": int, "real": _Time, "any": Any, "any?": Any, "bytes": bytes,
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


def check_row(row: Row, form: type[msgspec.Struct]) -> Row:
    """The row, if it has that form; else msgspec.ValidationError."""
    convert(row, form)
    return row


_TASK = form(
    *(cell_kind(field) + ("" if never_null(field) else "?") for field in STORED),
    "integer",
)
_READ: dict[Kind, str] = {
    "flag": "{cell} != 0",
    "value": "None if {cell} is None else value_from_cell({cell})",
    **dict.fromkeys(
        _AS_JSON_TEXT,
        "_{cell}_default if {cell} is None else _decoded(_{cell}_decoder, {cell}, _{cell}_default)",
    ),
}
"""Cells of a kind as they are read, if not just taken."""
_READ_OWN = {
    "command": "None if command is None else _decoded(_command_decoder, command, ('',))",
    "updated": "created if updated is None else updated",
    "notify": "() if notify is None else _hooks(notify)",
}
"""Those of single fields."""


def _reading() -> str:
    """The source of `task_from_row`: one long expression, the hottest line of every reserve."""
    cells = ", ".join(Task.__struct_fields__)
    values = ",\n        ".join(
        _READ_OWN.get(field.name) or _READ.get(field.kind, "{cell}").format(cell=field.name)
        for field in STORED
    )
    return (
        "def task_from_row(_row):\n"
        "    _check_form(_row)\n"
        f"    {cells}, _ = _row\n"
        f"    return Task(\n        {values},\n    )\n"
    )


def by_seq(tx: Transaction, seqs: Sequence[int]) -> list[Task]:
    """Tasks by their number in the table, in the order asked for."""
    if not seqs:
        return []
    rows = {row[-1]: row for row in tx.all("get.seqs", tx.array(seqs))}
    return [task_from_row(rows[seq]) for seq in seqs]


def _decoded(decoder: msgspec.json.Decoder[T], cell: Cell, otherwise: T | None) -> Any:
    """What a column holds. One bad row, written by hand, must not keep a queue from being read."""
    try:
        return decoder.decode(cell)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return otherwise


def hooks_from_cell(cell: Cell) -> tuple[str, ...]:
    """A column `notify`. Rows written by hand may leave out the words in front, and be wrong."""
    hooks: list[str] = []
    for written in () if cell is None else _decoded(_words, cell, ()):
        with suppress(BadInput):
            hooks.append(notices.parse(written))
    return tuple(hooks)


_BASE64 = "base64:"
"""In front of bytes where a column holds text. No JSON begins so."""


def as_text(packed: str | bytes | None) -> str | None:
    """What `codec.pack` gives, as a column of text."""
    if isinstance(packed, bytes):
        return _BASE64 + b64encode(packed).decode()
    return packed


def value_from_cell(cell: str | bytes) -> Value:
    """The user's value that such a column holds."""
    return codec.unpack(packed_from_cell(cell))


def packed_from_cell(cell: str | bytes) -> str | bytes:
    """What `codec.pack` gave for what such a column holds."""
    if isinstance(cell, str) and cell.startswith(_BASE64):
        with suppress(ValueError):  # somebody's own text may begin so
            return b64decode(cell[len(_BASE64) :], validate=True)
    return cell


def json_cell(value: object) -> str | None:
    """JSON text for a column; what is empty or all default is null."""
    if value is None or value in ((), _DEFAULT_POLICY):
        return None
    return _encoder.encode(value).decode()


_DECODED = [field for field in STORED if field.kind in _AS_JSON_TEXT]
task_from_row: Callable[[Row], Task] = generated.function(
    "task_from_row",
    _reading(),
    {
        "Task": Task, "_check_form": converter(_TASK), "_decoded": _decoded,
        "value_from_cell": value_from_cell, "_hooks": hooks_from_cell,
        **{f"_{field.name}_decoder": json_decoder(field.type) for field in _DECODED},
        **{f"_{field.name}_default": field.default for field in _DECODED},
    },
)  # fmt: skip
"""A task from a row of TASK_COLUMNS."""


class Beginning(NamedTuple):
    """The state and times with which new tasks begin that were asked for alike."""

    at: float
    state: State
    eta: float | None
    start_before: float | None
    finish_before: float | None
    upstreams: int
    dependents: bool


likeness: Callable[[NewTask], tuple[Any, ...]] = attrgetter(
    *(name for name in NewTask.__struct_fields__ if name not in ("id", "parameters", "generated"))
)
"""What makes two new tasks alike."""


def beginning_of(
    new: NewTask, now: float, *, waits: bool = False, dependents: bool = False
) -> Beginning:
    """Work out how a new task begins, and all those that are like it."""
    eta, start_before, finish_before = moments(new, now)
    state: State = "scheduled" if eta is not None and eta > now else "pending"
    return Beginning(
        now,
        "waiting" if waits else state,
        eta,
        start_before,
        finish_before,
        len(new.after) + len(new.behind),
        dependents,
    )


_FIRST_NEW = ("queue", "owner", "key")
"""The statement `submit` uses these by their numbers, too."""
_OF_ONE_TASK = ("id", "parameters")
_NEW = sorted(
    (
        field
        for field in STORED
        if (field.is_submitted or field.name in BY_STORE) and field.name not in _OF_ONE_TASK
    ),
    key=lambda field: _FIRST_NEW.index(field.name) if field.name in _FIRST_NEW else len(_FIRST_NEW),
)
NEW_COLUMNS = ", ".join(column(field.name) for field in _NEW)
NEW_VALUES = ", ".join(f"?{number}" for number in range(5, 5 + len(_NEW)))
"""What new tasks that were asked for alike have in common, in the statement `submit`."""


def _writing() -> str:
    """The source of `new_cells`."""
    values = ", ".join(
        f"beginning.{BY_STORE[field.name]}"
        if field.name in BY_STORE
        else f"json_cell(new.{field.name})"
        if field.kind in _AS_JSON_TEXT
        else f"new.{field.name}"
        for field in _NEW
    )
    return f"def new_cells(new, beginning):\n    return ({values})\n"


_new_cells: Callable[[NewTask, Beginning], Row] = generated.function(
    "new_cells", _writing(), {"json_cell": json_cell}
)


def cells_in_common(new: NewTask, beginning: Beginning) -> Row:
    """The parameters of the statement `submit` that are not of one task alone."""
    return (history.after_number(beginning.at, beginning.state), *_new_cells(new, beginning))


def task_cells(task: Task, parameters: Cell, result: Cell) -> Row:
    """The cells of FIELD_COLUMNS; these two come in the form in which they are kept."""
    apart = {"parameters": parameters, "result": result}
    return tuple(
        apart[field.name]
        if field.name in apart
        else json_cell(getattr(task, field.name))
        if field.kind in _AS_JSON_TEXT
        else getattr(task, field.name)
        for field in STORED
    )


_PURGED = form("3 text", "real", "real?", "real")


def task_from_purged(row: Row) -> Task:
    """What is left of a purged task."""
    id, queue, state, created, finished_at, at = check_row(row, _PURGED)
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


def statistics_from_cell(cell: Cell) -> Statistics:
    """A row of the statement `statistics`; nothing, if it can't be read."""
    found: Statistics = _decoded(_statistics, cell, Statistics())
    return found


_EVENT = form("integer", "real", "3 text", "integer", "2 text?")


def event_from_row(row: Row) -> Event:
    """A row of the statement `watch`."""
    number, at, id, queue, event, attempt, worker, note = check_row(row, _EVENT)
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


def queue_from_row(row: Row, now: float, defaults: str) -> QueueInfo:
    """A row of the statement `queues`; its defaults come from another."""
    (
        name, paused, limit, retention, key_limit, key_limits, rate, rate_per, tokens, tokens_at,
        fair, notify, *counts, workers, oldest,
    ) = check_row(row, _QUEUE)  # fmt: skip
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
        defaults=read_defaults(defaults),
    )


def bucket_from_cells(rate: Cell, per: Cell, tokens: Cell, at: Cell) -> Bucket | None:
    """What a queue's rate leaves; None if it has none, or none that makes sense."""
    cells = (rate, per, tokens, at)
    if rate is None or not all(each is None or isinstance(each, int | float) for each in cells):
        return None
    if per is None or not (rate >= 1 and 0 < per <= CENTURY):
        return None
    return Bucket(Rate(rate, per), float(rate) if tokens is None else tokens, at)


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
    ) = check_row(row, _SCHEDULE)  # fmt: skip
    return Schedule(
        name=name, cron=cron, zone=zone, task=unpack_task(task), overlap=overlap,
        catch_up=catch_up, jitter=jitter, paused=paused != 0, origin=origin, next=next,
        created=created, updated=updated, last=last, last_task=last_task,
        waiting=waiting != 0,
    )  # fmt: skip


_WORKER = form(
    "2 text", "integer", "text", "integer", "text", "integer", "real", "integer", "text?",
    "integer", "3 real", "integer", "text?",
)  # fmt: skip


def worker_order(cell: Cell) -> WorkerOrder | None:
    """The column `worker_order`."""
    return None if cell is None else _decoded(_worker_order, cell, None)


def worker_from_row(row: Row, now: float) -> Worker:
    """A row of the statement `workers`."""
    (
        id, node, pid, queues, slots, version, draining, lease, keeps, handles, number, started_at,
        beat_at, lease_end, running, order,
    ) = check_row(row, _WORKER)  # fmt: skip
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
        order=worker_order(order),
    )  # fmt: skip


def orders_from_cell(cell: Cell) -> tuple[Order, ...]:
    """The column `orders`."""
    return () if cell is None else _decoded(_orders, cell, ())


_IS_JSON_TEXT = frozenset(field.name for field in _DECODED)


def changed_cell(field: str, value: Any) -> Cell:
    """Return what a field of a Task that a change sets is as a column."""
    if field == "result":
        return codec.pack(value, "result", codec.RESULT_LIMIT)
    if field == "parameters":
        return codec.pack(value, "parameters", codec.PARAMETERS_LIMIT)
    return json_cell(value) if field in _IS_JSON_TEXT else value
