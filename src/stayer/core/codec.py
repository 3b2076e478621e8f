"""Values as they are stored, records as they are shown, JSON as people write it.

`pack` and `unpack` are for the stores, the records for every door that speaks JSON, the parsers for
what comes in through those doors.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import zlib
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import count
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from stayer.core import limits
from stayer.core.errors import BadInput, TooLarge
from stayer.core.fields import POLICY, RECORD, field_names
from stayer.core.liveness import lost_workers
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import (
    JSON,
    STATES,
    Attempt,
    Checkpoint,
    Event,
    LogPiece,
    Policy,
    Statistics,
    Task,
    Usage,
    Value,
)
from stayer.core.ordering import rate_limit
from stayer.core.queue_model import QueueInfo
from stayer.core.units import format_size, rfc3339
from stayer.core.worker_model import Worker

PARAMETERS_LIMIT = RESULT_LIMIT = 1_000_000
CHECKPOINT_LIMIT = 16_000_000
COMPRESS_OVER = 4096
NESTING_LIMIT = 100
"""Deeper values could be written but not be read everywhere: other parsers stop at about here."""

# No UTF-8 text begins so; bytes of a user's that do are wrapped.
_MAGIC = b"\xfe\xd7St"
_JSON, _BYTES, _RAW = b"j", b"b", b"r"
_BYTES_LIKE = (bytes, bytearray, memoryview)
_INFLATED_LIMIT = 64_000_000
"""A blob that claims to be larger is no work of `pack`, but a trap for the memory."""

TIMES = frozenset((*field_names("moment"), "at", "oldest", "next", "last", "next_start"))
"""What is shown as a time, by the names of fields: those of a task, then those of other records."""
_STRUCTS = frozenset(field_names("structs"))
_LISTS = frozenset((*field_names("words"), "queues", "names", "programs", "requirements"))
_SURE = frozenset((str, int, bool))
"""What JSON says as it is, or not at all."""
_AS_THEY_ARE = frozenset((str, int, float, bool, dict, list))


def _plain(value: object) -> object:
    """Subclasses of the plain types (numpy.float64 is one) are as good as these."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"JSON can't say what is of class {type(value).__qualname__}")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode = msgspec.json.Decoder().decode
_BITS_LIMIT = 14_280
"""About 4,300 decimal digits: more, Python itself refuses to read or write."""
_ALWAYS_FINE = frozenset((bool, type(None)))
_SMALL = 2**63
_WITH_KEYS = (list, tuple, dict)
_STEPS_LIMIT = 100_000
"""How many values that may be at fault are looked at to say more of JSON that can't be read."""
_LONGEST_WAY = 200
"""How many characters of the way to a fault a message shows."""
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def pack(value: Value, what: str, limit: int) -> str | bytes | None:
    """Return a value's stored form: JSON text, or bytes; large ones compressed. Raises BadInput,
    TooLarge.
    """
    if value is None:
        return None
    if isinstance(value, _BYTES_LIKE):
        return _pack_bytes(bytes(value), what, limit)
    try:
        form = _encode(value)
        if len(form) > limit:
            raise _too_large(what, len(form), limit)
        if type(value) in _SURE:
            return form.decode() if len(form) <= COMPRESS_OVER else _compress_or_text(form)
        # Much that JSON can't say msgspec turns into something else; then it does not come back.
        back = _decode(form)
        faithful = back == value
    except (TypeError, ValueError, RecursionError) as error:
        _complain(value, what)
        raise BadInput(f"{what} can't be written as JSON: {error}") from None
    if not faithful:
        _complain(value, what)
    if len(form) > 2 * NESTING_LIMIT and _is_deep(form, back):
        raise _too_deep(what)
    return form.decode() if len(form) <= COMPRESS_OVER else _compress_or_text(form)


def size(value: Value) -> int:
    """Bytes of the value as JSON, or as it is; 0 where `pack` would say what is wrong with it."""
    if isinstance(value, _BYTES_LIKE):
        return len(value)
    try:
        return 0 if value is None else len(_encode(value))
    except (TypeError, ValueError, RecursionError):
        return 0


def _compress_or_text(form: bytes) -> str | bytes:
    return _compress(form, _JSON) or form.decode()


def _pack_bytes(value: bytes, what: str, limit: int) -> bytes:
    if len(value) > limit:
        raise _too_large(what, len(value), limit)
    if len(value) > COMPRESS_OVER and (squeezed := _compress(value, _BYTES)):
        return squeezed
    return _MAGIC + _RAW + value if value.startswith(_MAGIC) else value


def _compress(form: bytes, kind: bytes) -> bytes | None:
    if len(form) > _INFLATED_LIMIT:
        return None
    squeezed = _MAGIC + kind + zlib.compress(form, 1)
    return squeezed if len(squeezed) < len(form) else None


def _too_large(what: str, size: int, limit: int) -> TooLarge:
    shown, allowed = format_size(size), format_size(limit)
    if shown == allowed:
        shown, allowed = f"{size:,} bytes", f"{limit:,}"
    are = "are" if what.endswith("s") else "is"
    return TooLarge(
        f"{what} {are} {shown}, the limit is {allowed}: "
        "store the data elsewhere and pass where it is"
    )


def unpack(stored: str | bytes | None) -> Value:
    """Return the value of a stored form. Never fails: text that is no JSON is itself, and so are
    bytes.
    """
    if isinstance(stored, str):
        return _decode_or(stored, stored)
    if isinstance(stored, bytes) and stored.startswith(_MAGIC):
        return _unwrap(stored)
    return stored


def _decode_or(form: str | bytes, otherwise: str | bytes) -> Value:
    try:
        value: JSON = _decode(form)
    except UNREADABLE:
        return otherwise
    return value


def _unwrap(stored: bytes) -> Value:
    kind, body = stored[len(_MAGIC) : len(_MAGIC) + 1], stored[len(_MAGIC) + 1 :]
    if kind == _RAW:
        return body
    form = _inflate(body) if kind in (_JSON, _BYTES) else None
    if form is None:
        return stored
    return form if kind == _BYTES else _decode_or(form, stored)


def _inflate(body: bytes) -> bytes | None:
    """Decompress, or return None where it is damaged."""
    inflater = zlib.decompressobj()
    try:
        form = inflater.decompress(body, _INFLATED_LIMIT)
    except zlib.error:
        return None
    return form if inflater.eof and not inflater.unused_data else None


def _is_deep(form: bytes, value: JSON) -> bool:
    if form.count(b"[") + form.count(b"{") <= NESTING_LIMIT:
        return False
    level: list[JSON] = [value]
    for _ in range(NESTING_LIMIT + 1):
        containers = [inner for inner in level if isinstance(inner, dict | list)]
        if not containers:
            return False
        level = [
            inner
            for outer in containers
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return True


def _too_deep(what: str) -> BadInput:
    return BadInput(f"{what}: nested over {NESTING_LIMIT} levels deep, or in itself: flatten it")


class _Weary(Exception):
    """A search for a fault has taken as many steps as it may."""


def _complain(value: object, what: str, steps: Iterable[int] = ()) -> None:
    """Say which part of the value JSON can't hold; returns if all of it is fine. Raises _Weary if
    that is not known after so many steps (without: as many as it takes).
    """
    if found := _find_fault(value, what, iter(steps) if steps else count()):
        way, problem = found
        raise BadInput(f"{what}{_cut(''.join(reversed(way)))} {problem}")


def _find_fault(
    value: object, what: str, steps: Iterator[int], depth: int = 0
) -> tuple[list[str], str] | None:
    """Find what JSON can't hold, and the path to it, its end first. The path is built on the way
    back: there may be millions of values, and each of them below a key of megabytes.
    """
    if next(steps, None) is None:
        raise _Weary
    if depth > NESTING_LIMIT:
        raise _too_deep(what)
    if isinstance(value, enum.Enum):
        value = value.value
    for key, inner in _parts(value):
        kind = type(inner)
        if (
            kind in _ALWAYS_FINE
            or (kind is int and -_SMALL < inner < _SMALL)
            or (kind is str and inner.isascii())
            or (kind is float and math.isfinite(inner))
        ):
            continue
        if found := _find_fault(inner, what, steps, depth + 1):
            found[0].append(
                f"[{limits.quote(key)}]" if isinstance(value, _WITH_KEYS) else f".{key}"
            )
            return found
    problem = _problem(value)
    return None if problem is None else ([], problem)


def _parts(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield what is in the value, with its place, key or name there."""
    if isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, Struct):
        named = ((name, getattr(value, name)) for name in value.__struct_fields__)
        yield from ((name, inner) for name, inner in named if inner is not msgspec.UNSET)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        yield from ((name, getattr(value, name, None)) for name in names)


def _cut(way: str) -> str:
    return (
        way
        if len(way) <= _LONGEST_WAY
        else f"{way[: _LONGEST_WAY // 2]}…{way[-_LONGEST_WAY // 2 :]}"
    )


def _problem(value: object) -> str | None:
    match value:
        case str() if (at := _surrogate(value)) is not None:
            return f"has a lone surrogate at character {at}, which is no text: pass bytes"
        case float() if not math.isfinite(value):
            return f"is {value}, which JSON can't say: pass None or a string"
        case int() if value.bit_length() > _BITS_LIMIT:
            return "is a number of over 4,000 digits: pass it as a string"
        case bytes() | bytearray() | memoryview():
            return "is bytes within a JSON value: pass bytes alone, or as text (base64)"
        case set() | frozenset():
            return "is a set, which JSON does not have: pass a list"
        case dict():
            return next(filter(None, map(_key_problem, value)), None)
        case str() | float() | int() | list() | tuple() | None:
            return None
        case _:
            return _kind_problem(value)


def _kind_problem(value: object) -> str | None:
    try:
        _encode(value)
    except TypeError:
        kind = type(value).__qualname__
        return f"is of class {kind}: pass numbers, strings, lists and dicts made of it"
    return None


def _key_problem(key: object) -> str | None:
    if not isinstance(key, str):
        text = f"has the key {limits.quote(key)}: the keys of a JSON object are strings"
        return f"{text}, pass {limits.quote(str(key))}"
    return None if _surrogate(key) is None else "has a key with a lone surrogate, which is no text"


def _surrogate(text: str) -> int | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def record(task: Task) -> dict[str, JSON]:
    """Return a task's public record: the same names everywhere, and what was decided about its
    life.
    """
    return {**_record_json(task, RECORD), **_policy_json(task.policy)}


@lru_cache(maxsize=256)  # few differ, and it is a third of the record
def _policy_items(policy: Policy) -> tuple[tuple[str, JSON], ...]:
    return tuple(_record_json(policy, POLICY).items())


def _policy_json(policy: Policy) -> dict[str, JSON]:
    # Lists anew each time: the caller may change what it gets.
    return {
        name: list(value) if isinstance(value, list) else value
        for name, value in _policy_items(policy)
    }


def attempt_record(attempt: Attempt) -> dict[str, JSON]:
    """Return the public record of one attempt."""
    return _record_json(attempt)


def usage_record(usage: Usage) -> dict[str, JSON]:
    """Return what an attempt had used at a moment, as JSON."""
    return _record_json(usage)


def statistics_record(statistics: Statistics) -> dict[str, JSON]:
    """Return what an attempt has reported of itself, as JSON."""
    found: dict[str, JSON] = msgspec.to_builtins(statistics)
    at = statistics.at
    return {**found, "at": None if at is None else rfc3339(at)}


def checkpoint_record(checkpoint: Checkpoint) -> dict[str, JSON]:
    """Return what a task saved last, as JSON."""
    return _record_json(checkpoint)


def log_record(piece: LogPiece) -> dict[str, JSON]:
    """Return a piece of a log, as JSON."""
    return _record_json(piece)


def event_record(event: Event) -> dict[str, JSON]:
    """Something that happened to a task."""
    return _record_json(event)


def queue_record(queue: QueueInfo) -> dict[str, JSON]:
    """Return a queue as JSON, with a count for every state."""
    shown = _record_json(queue)
    if queue.rate is not None:
        shown["rate"] = rate_limit.format_rate(queue.rate)
    return {**shown, "counts": {state: queue.counts.get(state, 0) for state in STATES}}


def worker_record(worker: Worker) -> dict[str, JSON]:
    """Return a worker as JSON, as the store knows it."""
    return _record_json(worker)


def lost_worker_record(lost: LostWorker) -> dict[str, JSON]:
    """Return a worker that is down as JSON."""
    return {
        **_record_json(lost),
        "tasks": [*lost.tasks],
        "state": "DOWN",
        "why": lost_workers.why(lost),
    }


def _record_json(record: Struct, names: tuple[str, ...] = ()) -> dict[str, JSON]:
    names = names or record.__struct_fields__
    values = msgspec.structs.asdict(record)
    shown: dict[str, JSON] = {name: values[name] for name in names}
    # Most fields are nothing, or as they are: the rest costs ten times as much.
    special = _special(names)
    for name, value in shown.items():
        if value is not None and (name in special or type(value) not in _AS_THEY_ARE):
            shown[name] = _field_json(name, value)
    return shown


@cache
def _special(names: tuple[str, ...]) -> frozenset[str]:
    """Return those of the fields that are shown as something else."""
    return frozenset(
        name
        for name in names
        if name in TIMES
        or name.endswith("_at")
        or name in _LISTS
        or name in _STRUCTS
        or name == "metrics"
    )


def _field_json(name: str, value: Any) -> JSON:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if name in TIMES or name.endswith("_at"):
        return rfc3339(value)
    if name in _LISTS:
        return list(value)
    if name in _STRUCTS or (isinstance(value, tuple) and value and isinstance(value[0], Struct)):
        return [_record_json(each) for each in value]
    if name == "metrics":  # `last` is no moment there
        return {each: msgspec.to_builtins(metric) for each, metric in value.items()}
    return _record_json(value) if isinstance(value, Struct) else value


def shown_value(value: Value) -> JSON:
    """Parameters or a result as JSON shows them."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def encode(value: JSON) -> str:
    """JSON on one line."""
    return _encode(value).decode()


def encode_pretty(value: JSON) -> str:
    """JSON for people."""
    return msgspec.json.format(_encode(value), indent=2).decode()


def parse(text: str | bytes, what: str) -> Value:
    """Read a value that somebody wrote as JSON; `{"base64": "…"}` stands for bytes."""
    try:
        value: JSON = _decode(text)
    except UNREADABLE as error:
        refuse(text, what, error)
    return as_value(value, what)


def json_or_text(text: str) -> JSON:
    """Return the JSON value that a text is, else the text."""
    try:
        value: JSON = _decode(text)
    except UNREADABLE:
        return text
    return value


def as_value(value: Value, what: str) -> Value:
    """Convert decoded JSON to a value: `{"base64": …}` stands for bytes."""
    if not isinstance(value, dict) or value.keys() != {"base64"}:
        return value
    text = value["base64"]
    if not isinstance(text, str):
        return value
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadInput(f"{what}: not base64: {error}") from None


def refuse(text: str | bytes, what: str, error: Exception) -> NoReturn:
    """Say what is wrong with the JSON, and where; the standard library says it best."""
    import json

    try:
        text = text.decode() if isinstance(text, bytes) else text
        _complain(json.loads(text), what, range(_STEPS_LIMIT))
    except json.JSONDecodeError as found:
        if not text.strip():
            raise BadInput(f'{what}: empty, where JSON should be, for example {{"n": 1}}') from None
        near = found.doc[found.pos : found.pos + 20]
        raise BadInput(
            f"{what}: not JSON at line {found.lineno}, column {found.colno}, "
            f"{f'near {near!r}' if near else 'at its end'}: {found.msg[0].lower()}{found.msg[1:]}. "
            'Strings and names need double quotes, for example {"name": "text"}'
        ) from None
    except UnicodeDecodeError as found:
        raise BadInput(f"{what}: not UTF-8 at byte {found.start}: JSON is UTF-8 text") from None
    except (ValueError, RecursionError, _Weary):
        pass
    raise BadInput(f"{what}: not usable as JSON: {error}") from None
