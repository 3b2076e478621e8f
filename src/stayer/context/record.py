"""The record of the task, from the `task.json` that the worker wrote."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from stayer.core import codec
from stayer.core.model import Task
from stayer.core.units import instant

_NOT_TOLD = ("result", "error", "progress")
"""Of an attempt before this one, if of any."""


class _File(Struct):
    task: dict[str, Raw]


def read(data: bytes) -> Task:
    """The task as it was when its attempt began. Raises msgspec.DecodeError."""
    written = msgspec.json.decode(data, type=_File).task
    fields: dict[str, Any] = {
        name: msgspec.json.decode(written[name])
        for name in Task.__struct_fields__
        if name in written and name not in _NOT_TOLD and name != "parameters"
    }
    for name in ("created", "updated", "eta", "started_at", "finished_at"):
        if isinstance(fields.get(name), str):
            fields[name] = instant(fields[name])
    fields["parameters"] = codec.parse(bytes(written.get("parameters", b"null")), "parameters")
    return msgspec.convert(fields, Task)
