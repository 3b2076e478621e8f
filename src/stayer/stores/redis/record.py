"""Tasks as strings in Redis, and back. The only place that knows what is where in a record, beside
its counterpart in Lua, `lib/record.lua`.

A value is one byte of flags, the length of the record (four bytes, big-endian) and of its first
part (three), the record, and the history: events behind each other. Record and event are
MessagePack arrays, which both msgspec and the server's own `cmsgpack` read; what is not there is
`false`, or left out at the end. The first part is what only this task has; tasks that have all the
rest in common, their kind, are many, and both sides work that out once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from stayer.core import codec, generated
from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput
from stayer.core.fields import SEQ, STORED, Kind
from stayer.core.model import (
    Event,
    NewTask,
    Order,
    Policy,
    State,
    Statistics,
    Task,
    Usage,
    Value,
)
from stayer.core.submit.fresh import fresh_task, moments

Raw: TypeAlias = Any
"""What the server answers; typed again here."""
T = TypeVar("T")

OWN = ("updated", "created", "seq", "id", "parameters", "result")
_NUMBERED = {field.row.number: field for field in STORED if field.row.number is not None}
_IN_SCRIPTS = {"part": "flow_part"}
"""What the scripts call a field by another name: there, a PART is something else."""
_NAMES = {SEQ: "seq"} | {
    number: _IN_SCRIPTS.get(field.name, field.name) for number, field in _NUMBERED.items()
}
FIELDS = tuple(_NAMES[number] for number in sorted(_NAMES))
"""The fields of a record in the order of their numbers: what only this task has, then its kind. A
record may end before the fields that it does not have; `seq` is the number of the event that
brought the task."""
NUMBER_OF = {_NAMES[number]: number for number in sorted(_NAMES)}
_KIND = [_NUMBERED[number] for number in range(len(OWN) + 1, len(FIELDS) + 1)]

PARAMETERS_TEXT, PARAMETERS_BYTES, RESULT_TEXT, RESULT_BYTES = 1, 2, 4, 8
INITIALLY_SCHEDULED, INITIALLY_WAITING = 16, 32
"""The flags: which values have keys of their own, and in which form; the state that it began in."""

SHORT = 1024
"""Text that is longer is kept apart, so that changes of state don't write it again and again."""
_EXACT = 2**53
"""Numbers in Lua are floating-point: past this, not every whole one exists."""

_usage = json_decoder(Usage)
_statistics = json_decoder(Statistics)
_order = json_decoder(Order)
_json = msgspec.json.Encoder()
_unpack = msgspec.msgpack.Decoder().decode
_pack = msgspec.msgpack.Encoder().encode
_DEFAULT_POLICY = Policy()
HEAD_LENGTH = 8
OWN_AT = HEAD_LENGTH + 3
"""Behind the array's own head, which always takes so much."""
_ABSENT = [False] * len(FIELDS)
_birth = struct.Struct(">dxd")
CREATED_AT = OWN_AT + 10


def pack(value: object) -> bytes:
    """Return an argument of a script; raises BadInput for what can't be written."""
    try:
        return _pack(value)
    except (UnicodeEncodeError, OverflowError) as error:
        raise BadInput(f"Redis can't keep this value: {error}") from error


def text(value: object) -> str | bool:
    """Return a part of a record that the scripts pass on without looking at it: JSON, or false."""
    if value is None or value in ((), _DEFAULT_POLICY):
        return False
    try:
        return _json.encode(value).decode()
    except UnicodeEncodeError as error:
        raise BadInput(f"Redis can't keep this value: {error}") from error


def apart(form: str | bytes | None) -> bool:
    """Return whether a packed value has a key of its own."""
    return isinstance(form, bytes) or (form is not None and len(form) > SHORT)


def from_new(new: NewTask, form: str | bytes | None, dependents: bool) -> bytes:
    """Return the value of a new task. Times and number come from the script, which puts them in the
    place of the first three fields: nine bytes each.
    """
    flags, kept = 0, form
    if form is not None and apart(form):
        flags, kept = PARAMETERS_BYTES if isinstance(form, bytes) else PARAMETERS_TEXT, None
    own = pack((0.0, 0.0, 0.0, new.id, False if kept is None else kept, False))[1:]
    if dependents or not is_plain(new):
        count, kind = _kind(new, dependents)
    else:
        count, kind = _plain_kind(new.queue, new.owner, new.name, new.submitted_by)
    length = OWN_AT - HEAD_LENGTH + len(own) + len(kind)
    return _head.pack(flags, length, len(own) >> 16, len(own) & 0xFFFF, 0xDC, count) + own + kind


_head = struct.Struct(">BIBHBH")
"""All that comes before the first field."""


@lru_cache(maxsize=1024)
def _plain_kind(
    queue: str, owner: str | None, name: str | None, submitted_by: str | None
) -> tuple[int, bytes]:
    """Write the kind of tasks that have no more than that, as most have: the same for many."""
    if submitted_by is not None:
        alike = NewTask(id="", queue=queue, owner=owner, name=name, submitted_by=submitted_by)
        return _kind(alike, False)
    kind = [queue, "pending", 0, False if owner is None else owner]
    return _without_head(kind if name is None else [*kind, name])


_WRITE: dict[Kind, str] = {
    "flag": "new.{name}",
    "words": "new.{name} or False",
    **dict.fromkeys(("text", "value"), "False if new.{name} is None else new.{name}"),
    **dict.fromkeys(("choice", "whole", "bytes"), "False if new.{name} == _{name} else new.{name}"),
    **dict.fromkeys(
        ("moment", "seconds", "number"), "False if new.{name} == _{name} else float(new.{name})"
    ),
    **dict.fromkeys(("variables", "object", "struct", "structs"), "_text(new.{name})"),
}
"""What a NewTask says as it is packed: false stands for the default."""
_WRITE_OWN = {
    "state": "'pending'",
    "attempt": "0",
    "upstreams": "len(new.after) + len(new.behind) or False",
    "dependents": "dependents",
}


def _writer_source() -> str:
    """Return the source of `all_of_kind`: the fields of a new task that others may have
    in common.
    """
    values = ", ".join(
        _WRITE_OWN.get(field.name)
        or (_WRITE[field.kind].format(name=field.name) if field.is_submitted else "False")
        for field in _KIND
    )
    return f"def all_of_kind(new, dependents):\n    return [{values}]\n"


_all_of_kind: Callable[[NewTask, bool], list[Raw]] = generated.function(
    "all_of_kind",
    _writer_source(),
    {"_text": text, **{f"_{each.name}": each.default for each in _KIND}},
)


def _kind(new: NewTask, dependents: bool) -> tuple[int, bytes]:
    """Return how many fields a record has, and all of them but its own, packed."""
    priority = new.priority
    if not -_EXACT <= priority <= _EXACT:
        raise BadInput(f"priority {priority}: give a whole number, such as 10 or -5")
    fields = _all_of_kind(new, dependents)
    while fields[-1] is False:
        fields.pop()
    return _without_head(fields)


def _without_head(fields: list[Raw]) -> tuple[int, bytes]:
    packed = pack(fields)
    return len(OWN) + len(fields), packed[1 if len(fields) < 16 else 3 :]


_PLAIN = (
    "id", "queue", "parameters", "owner", "name", "submitted_by", "generated", "said", "delay",
    "expire",
)  # fmt: skip
"""What a plain task may have: all that is no part of a record, or of many."""


def _asking() -> str:
    """Return the source of `is_plain`."""
    conditions = " and ".join(
        f"new.{each.name} is None" if each.default is None else f"new.{each.name} == _{each.name}"
        for each in msgspec.structs.fields(NewTask)
        if each.name not in _PLAIN
    )
    return f"def is_plain(new):\n    return {conditions}\n"


is_plain: Callable[[NewTask], bool] = generated.function(
    "is_plain",
    _asking(),
    {f"_{each.name}": each.default for each in msgspec.structs.fields(NewTask)},
)
"""Whether a task has nothing but parameters, an owner and a name, as most have."""


def task_as_submitted(new: NewTask, now: float, waits: bool, dependents: bool) -> Task:
    """Return a fresh task as the script has written it."""
    eta, start_before, finish_before = moments(new, now)
    state: State = "scheduled" if eta is not None and eta > now else "pending"
    return fresh_task(
        new,
        now,
        "waiting" if waits else state,
        eta,
        start_before,
        finish_before,
        len(new.after) + len(new.behind),
        dependents,
    )


def tasks(values: Sequence[Raw], kept_apart: Sequence[Raw] = ()) -> list[Task]:
    """Return the tasks of an answer: records, and (index, parameters, result) of what is kept
    apart.
    """
    found = [task(value) for value in values]
    for number in range(0, len(kept_apart), 3):
        index, parameters, result = kept_apart[number : number + 3]
        found[index] = _add_values(found[index], values[index][0], parameters, result)
    return found


class TasksReadLater(Sequence[Task]):
    """The tasks of an answer, read when somebody looks at them."""

    def __init__(self, values: Sequence[Raw], kept_apart: Sequence[Raw]) -> None:
        self._answer = values, kept_apart
        self._tasks: list[Task] | None = None

    def __len__(self) -> int:
        return len(self._answer[0])

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self._read())

    def _read(self) -> list[Task]:
        if self._tasks is None:
            self._tasks = tasks(*self._answer)
        return self._tasks


def tasks_or_none(values: Sequence[Raw], kept_apart: Sequence[Raw]) -> list[Task | None]:
    """Read the tasks of an answer in which some are not there."""
    found = [None if value is None else task(value) for value in values]
    for number in range(0, len(kept_apart), 3):
        index, parameters, result = kept_apart[number : number + 3]
        there = found[index]
        assert there is not None
        found[index] = _add_values(there, values[index][0], parameters, result)
    return found


def without_parameters(values: Sequence[Raw], kept_apart: Sequence[Raw]) -> set[int]:
    """Return which of an answer have had parameters that are not there any more."""
    return {
        kept_apart[at]
        for at in range(0, len(kept_apart), 3)
        if kept_apart[at + 1] is None
        and values[kept_apart[at]][0] & (PARAMETERS_TEXT | PARAMETERS_BYTES)
    }


def _add_values(task: Task, flags: int, parameters: Raw, result: Raw) -> Task:
    if flags & (PARAMETERS_TEXT | PARAMETERS_BYTES):
        task = replace(task, parameters=_value(parameters, flags & PARAMETERS_TEXT))
    if flags & (RESULT_TEXT | RESULT_BYTES):
        task = replace(task, result=_value(result, flags & RESULT_TEXT))
    return task


def _value(stored: bytes | None, is_text: int) -> Value:
    return codec.unpack(stored.decode() if stored is not None and is_text else stored)


def record_end(value: bytes) -> int:
    """Return where the history begins."""
    return HEAD_LENGTH + int.from_bytes(value[1:5], "big")


def created_and_seq(value: bytes) -> tuple[float, int]:
    """Read when a task was made, and the number of the event that brought it."""
    created, seq = _birth.unpack_from(value, CREATED_AT)
    return created, int(seq)


def task(value: bytes) -> Task:
    """Return a task but for what is kept apart: this is the hottest line of a reserve."""
    own_end = OWN_AT + int.from_bytes(value[5:HEAD_LENGTH], "big")
    kind = value[own_end : record_end(value)]
    updated, created, _, id, parameters, result = _unpack(b"\x96" + value[OWN_AT:own_end])
    of_kind = (_known_kind if len(kind) <= _SHORT_KIND else _task_of_kind)(kind, value[9:OWN_AT])
    task = replace(
        of_kind, id=id, parameters=None if parameters is False else codec.unpack(parameters),
        result=None if result is False else codec.unpack(result), created=created, updated=updated,
    )  # fmt: skip
    if of_kind.env is None is of_kind.meta:
        return task
    # Others are made of the same kind: what can be changed is copied.
    env = None if of_kind.env is None else dict(of_kind.env)
    return replace(task, env=env, meta=deepcopy(of_kind.meta))


def own_forms(value: bytes) -> tuple[Raw, Raw]:
    """Parameters and result in the form in which they are kept; false for what is not there, or
    kept apart.
    """
    own_end = OWN_AT + int.from_bytes(value[5:HEAD_LENGTH], "big")
    *_, parameters, result = _unpack(b"\x96" + value[OWN_AT:own_end])
    return parameters, result


def _task_of_kind(kind: bytes, count: bytes) -> Task:
    """Return a task that has nothing of its own; `count` is how many fields its record has."""
    fields = int.from_bytes(count, "big") - len(OWN)
    found = _unpack(_array.pack(0xDC, fields) + kind)
    return _with_all_fields(found + _ABSENT[len(OWN) + fields :])


_array = struct.Struct(">BH")
_SHORT_KIND = 200
"""How long a kind may be that is remembered: longer ones have something that few others have."""
_known_kind = lru_cache(maxsize=512)(_task_of_kind)


def _decode_dated(decoder: msgspec.json.Decoder[T], text: str) -> T:
    """Return a part that the script has put its moment in front of."""
    at, _, form = text.partition(" ")
    return replace(decoder.decode(form), at=float(at))  # type: ignore[type-var]


def usage(stored: bytes) -> Usage:
    """Return a point of a series."""
    return _decode_dated(_usage, stored.decode())


def statistics(stored: bytes) -> Statistics:
    """Return what an attempt has reported of itself."""
    return _decode_dated(_statistics, stored.decode())


def pack_order(order: Order) -> tuple[int, bool, bool, str]:
    """Return what the scripts must know of an order (number, cancel?, acknowledged?), and all of
    it.
    """
    is_cancel = order.verb == "cancel"
    return order.number, is_cancel, order.acknowledged, _json.encode(order).decode()


def order(packed: Sequence[Raw]) -> Order:
    """Return an order; whether it was acknowledged is what the scripts have noted."""
    _, _, acknowledged, form = packed
    found = _order.decode(form)
    return found if found.acknowledged == acknowledged else replace(found, acknowledged=True)


def _orders(packed: Sequence[Raw]) -> tuple[Order, ...]:
    return tuple(map(order, packed))


_READ: dict[Kind, str] = {
    "flag": "{name}",
    "words": "_{name} if {name} is False else tuple({name})",
    **dict.fromkeys(("text", "choice", "whole", "bytes"), "_{name} if {name} is False else {name}"),
    **dict.fromkeys(
        ("moment", "seconds", "number"), "_{name} if {name} is False else float({name})"
    ),
    **dict.fromkeys(
        ("variables", "object", "struct"),
        "_{name} if {name} is False else _{name}_decoder.decode({name})",
    ),
}
"""Fields of a kind as they are read: false stands for the default."""
_READ_OWN = {
    "progress": "None if progress is False else _decode_dated(_progress_decoder, progress)",
    "usage": "None if usage is False else _decode_dated(_usage_decoder, usage)",
    "orders": "() if orders is False else _orders(orders)",
}


def _reader_source() -> str:
    """Return the source of `with_all_fields`: one long expression, for every kind that is met."""
    own = {"id": "''", "created": "0.0", "updated": "0.0", "parameters": "None", "result": "None"}
    values = ",\n        ".join(
        own.get(field.name)
        or _READ_OWN.get(field.name)
        or _READ[field.kind].format(name=field.name)
        for field in STORED
    )
    return (
        "def with_all_fields(_kind):\n"
        f"    {', '.join(field.name for field in _KIND)}, *_ = _kind  # newer ones may have more\n"
        f"    return Task(\n        {values},\n    )\n"
    )


_DECODED = [field for field in _KIND if field.kind in ("variables", "object", "struct")]
_with_all_fields: Callable[[list[Raw]], Task] = generated.function(
    "with_all_fields",
    _reader_source(),
    {
        "Task": Task,
        "_decode_dated": _decode_dated,
        "_orders": _orders,
        **{f"_{field.name}_decoder": json_decoder(field.type) for field in _DECODED},
        **{f"_{field.name}": field.default for field in _KIND if field.name != "orders"},
    },
)
"""A task that has nothing of its own, from the fields of its kind."""


def read_purged(id: str, stored: bytes) -> Task:
    """Return what is left of a purged task."""
    queue, state, created, finished_at, at = _unpack(stored)
    return Task(
        id=id, queue=queue, state=state, created=float(created), updated=float(at),
        finished_at=float(finished_at),
    )  # fmt: skip


def event(packed: Sequence[Raw]) -> Event:
    """Read one event of the stream."""
    number, at, id, queue, name, attempt, worker, note = packed
    return Event(
        number=number, at=float(at), id=id, queue=queue, event=name, attempt=attempt,
        worker=worker or None, note=None if note is False else note,
    )  # fmt: skip


def batch_of_events(packed: bytes) -> list[Raw]:
    """Return an entry of the stream."""
    events: list[Raw] = _unpack(packed)
    return events
