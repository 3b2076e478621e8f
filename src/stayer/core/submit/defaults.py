"""What a queue says for its tasks where they say nothing: defaults for fields of a submission.

A store keeps them as one JSON object, and applies them when it accepts a task: from then on the
task has them, whatever becomes of the queue's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec, units
from stayer.core.decoding import convert, decode_json
from stayer.core.errors import BadInput
from stayer.core.fields import OF_QUEUE, SUBMISSION, Kind
from stayer.core.limits import QUEUE_DEFAULTS, quote
from stayer.core.model import JSON, Code, NewTask, Policy
from stayer.core.retries import DEFAULT_WAIT
from stayer.core.submit import checks
from stayer.core.submit.json import parse_submission

_encode = msgspec.json.Encoder(order="sorted").encode
_USUAL = Policy()
_LIFE = frozenset(Policy.__struct_fields__)
_AS_TEXT: tuple[Kind, ...] = ("text", "choice", "moment", "seconds", "bytes")
"""Kinds whose values are written as they are, without the quotes of JSON."""


def parse_defaults(written: Mapping[str, Any]) -> dict[str, JSON]:
    """Read what is to be changed, as JSON says it; None takes one away. Raises BadInput."""
    if not isinstance(written, Mapping):
        raise BadInput(f'defaults {quote(written)}: give them by field, such as {{"retries": 3}}')
    for name in written:
        if name not in OF_QUEUE:
            raise BadInput(
                f"a queue has no default for {quote(name)}: it may have one for "
                f"{', '.join(OF_QUEUE)}"
            )
    said = {name: value for name, value in written.items() if value is not None}
    new = checks.new_task(queue="default", **parse_submission(_encode(said), "defaults"))
    if new.code is not None and new.code.files:
        raise BadInput("the default code of a queue has no files: send them along with each task")
    checked = {name: getattr(new.policy if name in _LIFE else new, name) for name in said}
    found: dict[str, JSON] = msgspec.to_builtins(checked)
    return {name: found.get(name) for name in written}


def parse_value(name: str, text: str) -> JSON:
    """Read a default that somebody writes as text: `3`, `2h`, `oom,timeout`, or JSON for code."""
    field = SUBMISSION.get(name)
    if field is None or field.kind in _AS_TEXT:
        return text
    if field.kind == "words":
        return [word.strip() for word in text.split(",") if word.strip()]
    found: JSON = codec.parse(text, f"default {name}")  # type: ignore[assignment]
    return found


def describe(defaults: Mapping[str, JSON]) -> str:
    """Say them in a line, as `parse_value` reads them: `retries 3, time_limit 2h`."""
    return ", ".join(f"{name} {_text(name, value)}" for name, value in sorted(defaults.items()))


def _text(name: str, value: JSON) -> str:
    kind = SUBMISSION[name].kind if name in SUBMISSION else "value"
    if kind == "seconds" and isinstance(value, int | float):
        return units.format_duration(value)
    if kind == "bytes" and isinstance(value, int | float):
        return units.format_limit(value)
    if isinstance(value, str) and kind in _AS_TEXT:
        return value
    return ",".join(map(str, value)) if isinstance(value, list) else codec.encode(value)


def merge(there: Mapping[str, JSON], changed: Mapping[str, JSON]) -> dict[str, JSON]:
    """Merge changes into the defaults that there are; BadInput if they are too long then."""
    merged = {**there, **changed}
    both: dict[str, JSON] = {name: each for name, each in merged.items() if each is not None}
    size = len(write_defaults(both))
    if size > QUEUE_DEFAULTS and size > len(write_defaults(there)):
        raise BadInput(
            f"the queue's defaults would have {size:,} bytes as JSON, at most {QUEUE_DEFAULTS:,} "
            "fit: say long ones with each task"
        )
    return both


def write_defaults(defaults: Mapping[str, JSON]) -> str:
    """Write defaults as a store keeps them; nothing if there are none."""
    return _encode(defaults).decode() if defaults else ""


def read_defaults(text: str) -> dict[str, JSON]:
    """Read them again. What can't be read is as if it were not there."""
    try:
        return decode_json(text, dict[str, Any]) if text else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}


class _Parsed(Struct, frozen=True):
    life: dict[str, Any]
    """What goes into the policy of a task …"""
    rest: dict[str, Any]
    """… and what is a field of its own."""


@lru_cache(maxsize=256)
def _parsed(text: str) -> _Parsed:
    found = {name: value for name, value in read_defaults(text).items() if name in OF_QUEUE}
    try:
        policy = convert(found, Policy, strict=False)
        return _Parsed(
            life={name: getattr(policy, name) for name in found if name in _LIFE},
            rest={
                name: convert(value, SUBMISSION[name].type)
                for name, value in found.items()
                if name not in _LIFE
            },
        )
    except msgspec.ValidationError:
        return _Parsed({}, {})


def with_defaults(new: NewTask, text: str) -> NewTask:
    """Return the task with the queue's defaults, as `written`, for what it does not say."""
    if not text:
        return new
    known = _parsed(text)
    life = {name: value for name, value in known.life.items() if not _says(new, name)}
    if life.get("retries") and not _says(new, "retry_wait"):
        life.setdefault("retry_wait", DEFAULT_WAIT)
    rest = {name: value for name, value in known.rest.items() if getattr(new, name) is None}
    code = known.rest.get("code")
    if code is not None and new.code == Code(files=new.code.files if new.code else ()):
        rest["code"] = replace(code, files=new.code.files)  # files alone say not what they need
    return replace(new, policy=replace(new.policy, **life), **rest)


def _says(new: NewTask, name: str) -> bool:
    if name in new.said:
        return True
    if name == "retry_wait" and checks.is_wait_filled_in(new):
        return False
    return bool(getattr(new.policy, name) != getattr(_USUAL, name))
