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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import (
    Event,
    Fault,
    NewTask,
    Order,
    Policy,
    Progress,
    State,
    Task,
    Usage,
    Value,
)

Raw: TypeAlias = Any
"""What the server answers; typed again here."""
T = TypeVar("T")

OWN = ("updated", "created", "seq", "id", "parameters", "result")
FIELDS = (
    *OWN, "queue", "state", "attempt", "owner", "name", "worker", "node", "ending", "finished_at",
    "started_at", "pid", "priority", "held", "eta", "tags", "command", "cwd", "env", "policy",
    "failures", "interruptions", "losses", "last_order", "error", "progress", "orders",
    "returned_from", "paused", "usage", "start_before", "flow", "flow_part", "upstreams",
    "dependents", "key", "unique", "unique_while", "unique_for", "notify", "checkpoint_at",
    "near_node", "near_until", "fingerprint",
)  # fmt: skip
"""The fields of a record in their order: what only this task has, then its kind, rare ones last,
where a record may end before them; `seq` is the number of the event that brought the task."""

NUMBER_OF = {field: number for number, field in enumerate(FIELDS, start=1)}

PARAMETERS_TEXT, PARAMETERS_BYTES, RESULT_TEXT, RESULT_BYTES = 1, 2, 4, 8
BORN_SCHEDULED, BORN_WAITING = 16, 32
"""The flags: which values have keys of their own, and in which form; the state that it began in."""

SHORT = 1024
"""Text that is longer is kept apart, so that changes of state don't write it again and again."""
_EXACT = 2**53
"""Numbers in Lua are floating-point: past this, not every whole one exists."""

_environment = msgspec.json.Decoder(dict[str, str])
_fault = msgspec.json.Decoder(Fault)
_progress = msgspec.json.Decoder(Progress)
_usage = msgspec.json.Decoder(Usage)
_policy = msgspec.json.Decoder(Policy)
_order = msgspec.json.Decoder(Order)
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
    """An argument of a script; raises BadInput for what can't be written."""
    try:
        return _pack(value)
    except (UnicodeEncodeError, OverflowError) as error:
        raise BadInput(f"Redis can't keep this value: {error}") from error


def text(value: object) -> str | bool:
    """A part of a record that the scripts pass on without looking at it: JSON, or false."""
    if value is None or value in ((), _DEFAULT_POLICY):
        return False
    try:
        return _json.encode(value).decode()
    except UnicodeEncodeError as error:
        raise BadInput(f"Redis can't keep this value: {error}") from error


def apart(form: str | bytes | None) -> bool:
    """Whether a packed value has a key of its own."""
    return isinstance(form, bytes) or (form is not None and len(form) > SHORT)


def from_new(new: NewTask, form: str | bytes | None, dependents: bool = False) -> bytes:
    """The value of a new task. Times and number come from the script, which puts them in the place
    of the first three fields: nine bytes each.
    """
    flags, kept = 0, form
    if form is not None and apart(form):
        flags, kept = PARAMETERS_BYTES if isinstance(form, bytes) else PARAMETERS_TEXT, None
    own = pack((0.0, 0.0, 0.0, new.id, False if kept is None else kept, False))[1:]
    if dependents or not is_plain(new):
        count, kind = _kind(new, dependents)
    else:
        count, kind = _plain_kind(new.queue, new.owner, new.name)
    length = OWN_AT - HEAD_LENGTH + len(own) + len(kind)
    return _head.pack(flags, length, len(own) >> 16, len(own) & 0xFFFF, 0xDC, count) + own + kind


_head = struct.Struct(">BIBHBH")
"""All that comes before the first field."""


@lru_cache(maxsize=1024)
def _plain_kind(queue: str, owner: str | None, name: str | None) -> tuple[int, bytes]:
    """Of tasks that have no more than that, as most have: the same for many."""
    kind = [queue, "pending", 0, False if owner is None else owner]
    return _without_head(kind if name is None else [*kind, name])


def _kind(new: NewTask, dependents: bool) -> tuple[int, bytes]:
    """How many fields a record has, and all of them but its own, packed."""
    priority = new.priority
    if not -_EXACT <= priority <= _EXACT:
        raise BadInput(f"priority {priority}: give a whole number, such as 10 or -5")
    is_tied = dependents or new.flow is not None or bool(new.after or new.behind)
    is_ordered = new.key is not None or new.unique is not None or bool(new.notify)
    fields: list[Raw] = [
        new.queue, "pending", 0,
        False if new.owner is None else new.owner,
        False if new.name is None else new.name,
        False, False, False, False, False, False, priority or False, new.held,
        False if new.eta is None else float(new.eta),
        new.tags or False, new.command or False,
        False if new.cwd is None else new.cwd,
        text(new.env), text(new.policy),
    ]  # fmt: skip
    if is_tied or is_ordered or new.start_before is not None:
        fields += _ABSENT[len(OWN) + len(fields) : NUMBER_OF["start_before"] - 1]
        fields.append(False if new.start_before is None else float(new.start_before))
    if is_tied or is_ordered:
        fields += (
            False if new.flow is None else new.flow,
            False if new.part is None else new.part,
            len(new.after) + len(new.behind) or False, dependents,
        )  # fmt: skip
    if is_ordered:
        fields += (
            False if new.key is None else new.key,
            False if new.unique is None else new.unique,
            new.unique_while == "waiting" and new.unique_while,
            new.unique_for or False, new.notify or False,
        )  # fmt: skip
    return _without_head(fields)


def _without_head(fields: list[Raw]) -> tuple[int, bytes]:
    packed = pack(fields)
    return len(OWN) + len(fields), packed[1 if len(fields) < 16 else 3 :]


def is_plain(new: NewTask) -> bool:
    """It has nothing but parameters, an owner and a name, as most have."""
    if new.key is not None or new.unique is not None or new.notify or new.flow is not None:
        return False
    special = new.command or new.cwd or new.priority or new.held or new.tags
    return (
        not special
        and not new.after
        and not new.behind
        and new.env is None
        and new.eta is None
        and new.start_before is None
        and new.policy == _DEFAULT_POLICY
    )


def task_as_submitted(new: NewTask, now: float, waits: bool, dependents: bool) -> Task:
    """A fresh task as the script has written it."""
    eta = now + new.delay if new.delay is not None else new.eta
    eta = None if eta is None else float(eta)
    start_before = now + new.expire if new.expire is not None else new.start_before
    state: State = "scheduled" if eta is not None and eta > now else "pending"
    if waits:
        state = "waiting"
    return Task(
        new.id, new.queue, new.name, new.command, new.cwd, new.env, new.parameters, state, new.held,
        0, 0, 0, None, new.priority, new.owner, new.tags, None, None, None, None, None, None, now,
        now, eta, None, None, new.policy, 0, (), 0, None, False, None,
        None if start_before is None else float(start_before),
        new.flow, new.part, len(new.after) + len(new.behind), dependents, new.key, new.unique,
        new.unique_while, new.unique_for, new.notify,
    )  # fmt: skip


def tasks(values: Sequence[Raw], kept_apart: Sequence[Raw] = ()) -> list[Task]:
    """The tasks of an answer: records, and (index, parameters, result) of what is kept apart."""
    found = [task(value) for value in values]
    for number in range(0, len(kept_apart), 3):
        index, parameters, result = kept_apart[number : number + 3]
        found[index] = _completed(found[index], values[index][0], parameters, result)
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
        found[index] = _completed(there, values[index][0], parameters, result)
    return found


def without_parameters(values: Sequence[Raw], kept_apart: Sequence[Raw]) -> set[int]:
    """Which of an answer have had parameters that are not there any more."""
    return {
        kept_apart[at]
        for at in range(0, len(kept_apart), 3)
        if kept_apart[at + 1] is None
        and values[kept_apart[at]][0] & (PARAMETERS_TEXT | PARAMETERS_BYTES)
    }


def _completed(task: Task, flags: int, parameters: Raw, result: Raw) -> Task:
    if flags & (PARAMETERS_TEXT | PARAMETERS_BYTES):
        task = replace(task, parameters=_value(parameters, flags & PARAMETERS_TEXT))
    if flags & (RESULT_TEXT | RESULT_BYTES):
        task = replace(task, result=_value(result, flags & RESULT_TEXT))
    return task


def _value(stored: bytes | None, is_text: int) -> Value:
    return codec.unpack(stored.decode() if stored is not None and is_text else stored)


def record_end(value: bytes) -> int:
    """Where the history begins."""
    return HEAD_LENGTH + int.from_bytes(value[1:5], "big")


def created_and_seq(value: bytes) -> tuple[float, int]:
    """Read when a task was made, and the number of the event that brought it."""
    created, seq = _birth.unpack_from(value, CREATED_AT)
    return created, int(seq)


def task(value: bytes) -> Task:
    """A task but for what is kept apart: this is the hottest line of a reserve."""
    own_end = OWN_AT + int.from_bytes(value[5:HEAD_LENGTH], "big")
    kind = value[own_end : record_end(value)]
    updated, created, _, id, parameters, result = _unpack(b"\x96" + value[OWN_AT:own_end])
    of_kind = (_known_kind if len(kind) <= _SHORT_KIND else _task_of_kind)(kind, value[9:OWN_AT])
    task = replace(
        of_kind, id=id, parameters=None if parameters is False else codec.unpack(parameters),
        result=None if result is False else codec.unpack(result), created=created, updated=updated,
    )  # fmt: skip
    return task if of_kind.env is None else replace(task, env=dict(of_kind.env))


def _task_of_kind(kind: bytes, count: bytes) -> Task:
    """A task that has nothing of its own; `count` is how many fields its record has."""
    fields = int.from_bytes(count, "big") - len(OWN)
    found = _unpack(_array.pack(0xDC, fields) + kind)
    return _with_all_fields(found + _ABSENT[len(OWN) + fields :])


_array = struct.Struct(">BH")
_SHORT_KIND = 200
"""How long a kind may be that is remembered: longer ones have something that few others have."""
_known_kind = lru_cache(maxsize=512)(_task_of_kind)


def _with_all_fields(kind: list[Raw]) -> Task:
    (
        queue, state, attempt, owner, name, worker, node, ending, finished_at, started_at, pid,
        priority, held, eta, tags, command, cwd, env, policy, failures, interruptions, losses,
        last_order, error, progress, orders, returned_from,
        paused, usage, start_before, flow, part, upstreams, dependents, key, unique, unique_while,
        unique_for, notify, checkpoint_at, near_node, near_until, fingerprint,
    ) = kind  # fmt: skip
    return Task(
        "", queue,
        None if name is False else name,
        None if command is False else tuple(command),
        None if cwd is False else cwd,
        None if env is False else _environment.decode(env),
        None, state, held, attempt, failures or 0, interruptions or 0, ending or None,
        priority or 0,
        None if owner is False else owner,
        () if tags is False else tuple(tags),
        None,
        None if error is False else _fault.decode(error),
        None if progress is False else _dated(_progress, progress),
        node or None, worker or None,
        None if pid is False else pid,
        0.0, 0.0,
        None if eta is False else float(eta),
        None if started_at is False else float(started_at),
        None if finished_at is False else float(finished_at),
        _DEFAULT_POLICY if policy is False else _policy.decode(policy),
        losses or 0,
        () if orders is False else tuple(map(order, orders)),
        last_order or 0, returned_from or None, paused,
        None if usage is False else _dated(_usage, usage),
        None if start_before is False else float(start_before),
        None if flow is False else flow,
        None if part is False else part,
        upstreams or 0, dependents,
        None if key is False else key,
        None if unique is False else unique,
        unique_while or "alive", float(unique_for or 0.0),
        () if notify is False else tuple(notify),
        None if checkpoint_at is False else float(checkpoint_at),
        near_node or None,
        None if near_until is False else float(near_until),
        fingerprint or None,
    )  # fmt: skip


def _dated(decoder: msgspec.json.Decoder[T], text: str) -> T:
    """A part that the script has put its moment in front of."""
    at, _, form = text.partition(" ")
    return replace(decoder.decode(form), at=float(at))  # type: ignore[type-var]


def usage(stored: bytes) -> Usage:
    """A point of a series."""
    return _dated(_usage, stored.decode())


def packed_order(order: Order) -> tuple[int, bool, bool, str]:
    """What the scripts must know of an order (number, cancel?, acknowledged?), and all of it."""
    is_cancel = order.verb == "cancel"
    return order.number, is_cancel, order.acknowledged, _json.encode(order).decode()


def order(packed: Sequence[Raw]) -> Order:
    """An order; whether it was acknowledged is what the scripts have noted."""
    _, _, acknowledged, form = packed
    found = _order.decode(form)
    return found if found.acknowledged == acknowledged else replace(found, acknowledged=True)


def purged(id: str, stored: bytes) -> Task:
    """What is left of a purged task."""
    queue, state, created, finished_at, at = _unpack(stored)
    return Task(
        id=id, queue=queue, state=state, created=float(created), updated=float(at),
        finished_at=float(finished_at),
    )  # fmt: skip


def event(packed: Sequence[Raw]) -> Event:
    """One of the stream."""
    number, at, id, queue, name, attempt, worker, note = packed
    return Event(
        number=number, at=float(at), id=id, queue=queue, event=name, attempt=attempt,
        worker=worker or None, note=None if note is False else note,
    )  # fmt: skip


def batch_of_events(packed: bytes) -> list[Raw]:
    """An entry of the stream."""
    events: list[Raw] = _unpack(packed)
    return events
