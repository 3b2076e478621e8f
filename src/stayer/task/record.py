"""The record of the task, from the `task.json` that the worker wrote."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw, Struct

from stayer.core import codec, model
from stayer.core.decoding import convert, decode_json
from stayer.core.model import JSON, Task
from stayer.core.units import instant

_OMITTED_FIELDS = ("result", "error", "progress")
"""What is not shown to a task: it is of an attempt before this one, if of any."""
_EMPTY: dict[type, Any] = {list: (), dict: {}}


def inputs(path: str | Path) -> dict[str, Any]:
    """Return what the worker wrote of the results of upstream tasks; nothing if there are none."""
    try:
        written = decode_json(Path(path).read_bytes(), dict[str, Raw])
    except FileNotFoundError:
        return {}
    return {name: _input(msgspec.json.decode(value), value) for name, value in written.items()}


def _input(value: Any, written: Raw) -> Any:
    if isinstance(value, list) and b'"base64"' in bytes(written):
        return [codec.parse(msgspec.json.encode(each), "input") for each in value]
    return codec.parse(bytes(written), "input")


class _File(Struct):
    task: dict[str, Raw]


def read(data: bytes) -> Task:
    """Return the task as it was when its attempt began. Raises ValueError."""
    written = decode_json(data, _File).task
    fields: dict[str, Any] = {
        name: msgspec.json.decode(written[name])
        for name in Task.__struct_fields__
        if name in written and name not in _OMITTED_FIELDS and name != "parameters"
    }
    for name, value in fields.items():
        if isinstance(value, str) and (name in codec.TIMES or name.endswith("_at")):
            fields[name] = instant(value)
        elif isinstance(value, list | dict):
            fields[name] = convert(value, _type_of(name)) if value else _EMPTY[type(value)]
    fields["parameters"] = codec.parse(bytes(written.get("parameters", b"null")), "parameters")
    if not all(isinstance(fields.get(name), str) for name in ("id", "queue")):
        raise ValueError("it names no task")
    return Task(**fields)


@functools.cache
def _type_of(name: str) -> Any:
    """Return the type of one field. Those of all are more than a hundred annotations to compile,
    ten times the work of a short task.
    """
    one = type("One", (), {"__annotations__": {name: Task.__annotations__[name]}})
    return get_type_hints(one, vars(model))[name]


def get_ready() -> None:
    """Work out what `read` works out at its first use: whoever forks has it done once for all."""
    record: dict[str, JSON] = {
        "id": "",
        "queue": "",
        "command": [""],
        "env": {"": ""},
        "tags": [""],
    }
    read(codec.encode({"task": record}).encode())
