"""A task as it is, with all that it has been through, in the form in which it is kept: for a move
into this store. New tasks go a shorter way (`record.from_new`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput
from stayer.core.fields import STORED, Field
from stayer.core.history.gaps import cut_into_parts
from stayer.core.history.line import Line
from stayer.core.model import Fault, Progress, Task, Usage
from stayer.core.move.records import TaskCopy
from stayer.store import HISTORY_HEAD
from stayer.stores.redis import record
from stayer.stores.redis.history import Moment, history
from stayer.stores.redis.record import Raw
from stayer.stores.redis.strict_numbers import LAST

_EXACT = 2**53
_TO_BE_NUMBERED = -1.0
"""In the place of a number that is too large for the lists: the script gives another."""
_IN_RECORD = 1024
"""How much of its history stands behind a record, in bytes; if it is more, it is kept apart."""
_INITIAL_STATE_FLAGS = {
    "scheduled": record.INITIALLY_SCHEDULED, "waiting": record.INITIALLY_WAITING,
}  # fmt: skip
_KIND = sorted(
    (field for field in STORED if field.name not in record.OWN),
    key=lambda field: field.row.number or 0,
)
_head = struct.Struct(">BIBHBH")
_moment = struct.Struct(">QII")
_json = msgspec.json.Encoder()
_fault = json_decoder(Fault)


class Packed(msgspec.Struct, frozen=True):
    """What a task is made of: its value, parameters and result that are kept apart, and the parts
    of its older history: those that hold the first entries, then the others.
    """

    value: bytes
    parameters: str | bytes | None
    result: str | bytes | None
    head: list[bytes]
    tail: list[bytes]


def pack_copy(copy: TaskCopy) -> Packed:
    """The form in which the scripts take it. Raises BadInput if it can't be kept."""
    task = copy.task
    if abs(task.priority) > _EXACT:
        raise BadInput(f"task {task.id}: Redis can't keep its priority {task.priority}")
    born, *lines = copy.history
    flags = _INITIAL_STATE_FLAGS.get(born.event, 0)
    apart: list[str | bytes | None] = []
    number = float(born.number) if born.number <= LAST else _TO_BE_NUMBERED
    own: list[Raw] = [float(task.updated), float(task.created), number, task.id]
    for form, of_text, of_bytes in (
        (copy.parameters, record.PARAMETERS_TEXT, record.PARAMETERS_BYTES),
        (copy.result, record.RESULT_TEXT, record.RESULT_BYTES),
    ):
        if form is not None and record.apart(form):
            flags |= of_bytes if isinstance(form, bytes) else of_text
            apart.append(form)
            own.append(False)
        else:
            apart.append(None)
            own.append(False if form is None else form)
    kind = [_packed_field(field, getattr(task, field.name)) for field in _KIND]
    while kind and kind[-1] is False:
        kind.pop()
    own_bytes, kind_bytes = record.pack(own)[1:], _without_head(record.pack(kind), len(kind))
    count = len(record.OWN) + len(kind)
    length = record.OWN_AT - record.HEAD_LENGTH + len(own_bytes) + len(kind_bytes)
    head = _head.pack(flags, length, len(own_bytes) >> 16, len(own_bytes) & 0xFFFF, 0xDC, count)
    newest, *older = _history(lines)
    return Packed(head + own_bytes + kind_bytes + newest, *apart, *older)  # type: ignore[arg-type]


def _without_head(packed: bytes, count: int) -> bytes:
    return packed[1 if count < 16 else 3 :]


def _packed_field(field: Field, value: Any) -> Raw:
    """False stands for the default."""
    if value == field.default and field.name not in ("queue", "state", "attempt"):
        return False
    own = _OWN.get(field.name)
    if own is not None:
        return own(value)
    match field.kind:
        case "words":
            return list(value) or False
        case "moment" | "seconds" | "number":
            return float(value)
        case "variables" | "object" | "struct" | "structs":
            return record.text(value)
        case _:
            return value


def _dated(value: Progress | Usage) -> str:
    return f"{value.at or 0.0!r} {_json.encode(value).decode()}"


_OWN: dict[str, Callable[[Any], Raw]] = {
    "progress": _dated,
    "usage": _dated,
    "orders": lambda orders: [record.pack_order(order) for order in orders],
}


def _history(lines: Sequence[Line]) -> tuple[bytes, list[bytes], list[bytes]]:
    """What stands behind the record, then the parts that are kept apart. The first line of all is
    not among these: the record says it.
    """
    parts = [(before, b"".join(map(_entry, part))) for before, part in cut_into_parts(lines)]
    if not parts:
        return b"", [], []
    if len(parts) == 1 and len(parts[0][1]) <= _IN_RECORD:
        return parts[0][1], [], []
    made = [(before, _moment.pack(before, 0, 0) + part) for before, part in parts]
    head = [part for before, part in made if before < HISTORY_HEAD]
    return b"", head, [part for before, part in made if before >= HISTORY_HEAD]


def _entry(line: Line) -> bytes:
    error = False if line.error is None else _json.encode(line.error).decode()
    cells = [line.at, line.event, line.worker, line.note, line.ending, error, line.node, line.pid,
             line.was_at]  # fmt: skip
    about = [False if cell is None else cell for cell in cells]
    while about[-1] is False:
        about.pop()
    said = record.pack(about)
    return _moment.pack(line.number, line.attempt, len(said)) + said


def unpack_copy(value: bytes, parameters: Raw, result: Raw, older: Sequence[bytes]) -> TaskCopy:
    """The way back."""
    task, flags = record.task(value), value[0]
    created, seq = record.created_and_seq(value)
    born = "scheduled" if flags & record.INITIALLY_SCHEDULED else "pending"
    if flags & record.INITIALLY_WAITING:
        born = "waiting"
    lines = [Line(seq, created, born), *map(_line, history(value, older))]
    own = record.own_forms(value)
    return TaskCopy(
        task=_bare(task),
        parameters=_form(own[0], parameters, flags & record.PARAMETERS_TEXT),
        result=_form(own[1], result, flags & record.RESULT_TEXT),
        history=tuple(lines),
    )


def _bare(task: Task) -> Task:
    return msgspec.structs.replace(task, parameters=None, result=None)


def _form(own: Raw, apart: Raw, is_text: int) -> str | bytes | None:
    if own is not False:
        form: str | bytes = own
        return form
    if apart is None:
        return None
    return apart.decode() if is_text else bytes(apart)


def _line(moment: Moment) -> Line:
    about = moment.about
    error = about.error
    return Line(
        moment.number, about.at, about.event, moment.attempt, about.worker or None,
        about.note if isinstance(about.note, str) else None,
        about.ending or None,  # type: ignore[arg-type]
        _fault.decode(error) if isinstance(error, str) else None,
        about.node if isinstance(about.node, str) else None,
        None if about.pid is False else int(about.pid),
        None if about.was_at is False else float(about.was_at),
    )  # fmt: skip
