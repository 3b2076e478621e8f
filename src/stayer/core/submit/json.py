"""Tasks that somebody wrote as JSON: on a line of a file, in a request, in a list of Redis."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from stayer.core import codec, limits
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import Value, WhenFailed
from stayer.core.submit import decode_errors
from stayer.core.units import duration, format_size, instant, memory


class WrittenSubmission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submission as it is written: times may be text."""

    id: str | None = None
    queue: str | None = None
    name: str | None = None
    command: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    parameters: Value = None
    priority: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    eta: float | str | None = None
    delay: float | str | None = None
    expire: float | str | None = None
    start_before: float | str | None = None
    owner: str | None = None
    tags: tuple[str, ...] | None = None
    held: bool | None = None
    retries: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    retry_wait: float | str | None = None
    retry_backoff: Annotated[float, Meta(ge=1, le=100)] | None = None
    retry_cap: float | str | None = None
    retry_on: tuple[str, ...] | None = None
    give_up_on: tuple[str, ...] | None = None
    time_limit: float | str | None = None
    silence_limit: float | str | None = None
    memory_limit: int | str | None = None
    grace: float | str | None = None
    fence: Literal["freeze", "kill"] | None = None
    time_growth: Annotated[float, Meta(ge=1, le=100)] | None = None
    time_most: float | str | None = None
    memory_growth: Annotated[float, Meta(ge=1, le=100)] | None = None
    memory_most: int | str | None = None
    after: tuple[str, ...] | None = None
    when_failed: WhenFailed | None = None
    near: str | None = None
    near_wait: float | str | None = None
    key: str | None = None
    unique: str | None = None
    unique_while: Literal["waiting", "alive"] | None = None
    unique_for: float | str | None = None
    notify: tuple[str, ...] | None = None


_READERS: dict[str, Callable[[Any], float]] = {
    "eta": instant,
    "delay": duration,
    "expire": duration,
    "start_before": instant,
    "retry_wait": duration,
    "retry_cap": duration,
    "time_limit": duration,
    "silence_limit": duration,
    "memory_limit": memory,
    "grace": duration,
    "time_most": duration,
    "memory_most": memory,
    "unique_for": duration,
    "near_wait": duration,
}
_FIELDS = WrittenSubmission.__struct_fields__
_UNKNOWN = re.compile("Object contains unknown field (.*)", re.DOTALL)
_decode_submission = msgspec.json.Decoder(WrittenSubmission).decode


def parse_submission(
    line: str | bytes, what: str, not_here: Collection[str] = ()
) -> dict[str, Any]:
    """What a JSON object says of a task, by field, and nothing of what it does not say. Times and
    sizes may be text there; `what` names the line in errors, which don't name fields that are
    `not_here`.
    """
    if len(line) > limits.WRITTEN:
        raise TooLarge(
            f"{what}: {format_size(len(line))} of JSON, a task has at most "
            f"{format_size(limits.WRITTEN)}: store large data elsewhere, and pass where it is"
        )
    try:
        written = _decode_submission(line)
    except msgspec.ValidationError as error:
        raise BadInput(f"{what}: {_field_error(str(error), not_here)}") from None
    except codec.UNREADABLE as error:
        codec.refuse(line, what, error)
    values = zip(_FIELDS, astuple(written), strict=True)
    said: dict[str, Any] = {name: value for name, value in values if value is not None}
    if "parameters" in said:
        said["parameters"] = codec.as_value(written.parameters, f"{what}: parameters")
    if not said.keys().isdisjoint(_READERS):
        _read_units(said, what)
    return said


def _read_units(said: dict[str, Any], what: str) -> None:
    for name, read in _READERS.items():
        if name not in said:
            continue
        try:
            said[name] = read(said[name])
        except BadInput as error:
            raise BadInput(f"{what}: {name}: {error}") from None


def _field_error(message: str, not_here: Collection[str]) -> str:
    """msgspec's message, with the field in front and the allowed ones where it is unknown."""
    problem, field = decode_errors.split(message)
    if not field and (unknown := _UNKNOWN.fullmatch(problem)):
        allowed = ", ".join(field for field in _FIELDS if field not in not_here)
        return f"no field is called {unknown[1]!r}: allowed are {allowed}"
    said = decode_errors.in_words(problem, field, WrittenSubmission)
    return f"{field}: {said}" if field else f"{said}: a task is an object of named fields"
