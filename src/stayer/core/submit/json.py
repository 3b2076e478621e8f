"""Tasks that somebody wrote as JSON: on a line of a file, in a request, in a list of Redis."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec.structs import astuple

from stayer.core import codec, limits
from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput, TooLarge
from stayer.core.fields import RECORD, SUBMISSION, Kind
from stayer.core.submit import decode_errors
from stayer.core.units import duration, format_size, instant, memory

WrittenSubmission = msgspec.defstruct(
    "WrittenSubmission",
    [(field.name, field.json_type | None, None) for field in SUBMISSION.values()],
    module=__name__,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
"""A submission as it is written: times and sizes may be text, and None is what was not said."""

_UNITS: dict[Kind, Callable[[Any], float]] = {
    "moment": instant,
    "seconds": duration,
    "bytes": memory,
}
_READERS = {name: _UNITS[field.kind] for name, field in SUBMISSION.items() if field.kind in _UNITS}
_FIELDS = WrittenSubmission.__struct_fields__
_UNKNOWN = re.compile("Object contains unknown field (.*)", re.DOTALL)
_decode_submission = json_decoder(WrittenSubmission).decode


def parse_submission(
    line: str | bytes, what: str, not_here: Collection[str] = ()
) -> dict[str, Any]:
    """Read what a JSON object says of a task, by field, and nothing of what it does not say. Times
    and sizes may be text there; `what` names the line in errors, which don't name fields that are
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
    fields: dict[str, Any] = {name: value for name, value in values if value is not None}
    if "parameters" in fields:
        fields["parameters"] = codec.as_value(fields["parameters"], f"{what}: parameters")
    if not fields.keys().isdisjoint(_READERS):
        _read_units(fields, what)
    return fields


def _read_units(fields: dict[str, Any], what: str) -> None:
    for name, read in _READERS.items():
        if name not in fields:
            continue
        try:
            fields[name] = read(fields[name])
        except BadInput as error:
            raise BadInput(f"{what}: {name}: {error}") from None


def _field_error(message: str, not_here: Collection[str]) -> str:
    """msgspec's message, with the field in front and the allowed ones where it is unknown."""
    problem, field = decode_errors.split(message)
    if not field and (unknown := _UNKNOWN.fullmatch(problem)):
        allowed = ", ".join(field for field in _FIELDS if field not in not_here)
        name = unknown[1]
        if name in RECORD:
            return (
                f"{name!r} is in the record of a task, not in a submission (`clone` submits a task "
                f"again): allowed are {allowed}"
            )
        return f"no field is called {name!r}: allowed are {allowed}"
    text = decode_errors.in_words(problem, field, WrittenSubmission)
    return f"{field}: {text}" if field else f"{text}: a task is an object of named fields"
