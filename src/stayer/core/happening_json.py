"""What workers tell of their tasks, as JSON between them and a server."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.happenings import (
    Done,
    Fail,
    Happening,
    Interrupt,
    Note,
    Pin,
    SetMeta,
    Snooze,
    Start,
    Stop,
    WorkerLost,
)
from stayer.core.model import JSON, Value

TOLD: dict[str, type[Happening]] = {
    "start": Start,
    "done": Done,
    "fail": Fail,
    "interrupt": Interrupt,
    "lost": WorkerLost,
    "snooze": Snooze,
    "stop": Stop,
    "note": Note,
    "meta": SetMeta,
    "pin": Pin,
}
"""What a worker may tell of a task that it holds; nothing else can come from one."""
_NAMES = {kind: name for name, kind in TOLD.items()}


def happening_json(happening: Happening) -> dict[str, JSON] | None:
    """Write what happened; None if it is nothing that a worker tells."""
    name = _NAMES.get(type(happening))
    if name is None:
        return None
    if isinstance(happening, Done):
        return {"what": name, "result": codec.shown_value(happening.result)}
    fields: dict[str, JSON] = msgspec.to_builtins(happening)
    return {"what": name, **fields}


def read_happening(written: Mapping[str, Any]) -> Happening:
    """Read what happened; BadInput if it makes no sense."""
    kind = TOLD.get(str(written.get("what")))
    if kind is None:
        raise BadInput(f"what: say one of {', '.join(TOLD)}")
    if kind is Done:
        return Done(read_value(written.get("result"), "the result"))
    try:
        return msgspec.convert(written, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"{written['what']}: {error}") from None


def read_value(shown: JSON, what: str) -> Value:
    """Read a value of a user; raises TooLarge and BadInput as a submission does."""
    value: Value = shown
    if isinstance(shown, dict) and shown.keys() == {"base64"} and isinstance(shown["base64"], str):
        try:
            value = base64.b64decode(shown["base64"], validate=True)
        except ValueError:
            value = shown
    codec.pack(value, what, codec.RESULT_LIMIT)
    return value
