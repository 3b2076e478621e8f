"""Records from the JSON that shows them, and submissions to it: the way back from `core.codec`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from stayer.core import codec, rate
from stayer.core.errors import BadInput
from stayer.core.model import JSON, NewTask, Policy, QueueInfo, Submitted, Task, Value
from stayer.core.units import instant

T = TypeVar("T", bound=Struct)

_PLAIN = (
    "name",
    "command",
    "cwd",
    "env",
    "priority",
    "owner",
    "tags",
    "eta",
    "delay",
    "held",
    "key",
)
_FREE = ("parameters", "result")
"""Values of users: what is in them is not ours to read."""


def task(shown: Mapping[str, Any]) -> Task:
    """A task from its record."""
    found = {name: value for name, value in shown.items() if name not in codec.POLICY}
    policy = {name: shown[name] for name in codec.POLICY if shown.get(name) is not None}
    orders = shown.get("orders", ())
    last = max((order["number"] for order in orders), default=0)
    values = {name: _value(found.pop(name, None)) for name in _FREE}
    decoded = read(Task, {**found, "policy": policy, "last_order": last})
    return msgspec.structs.replace(decoded, **values)


def submitted(shown: Mapping[str, Any]) -> Submitted:
    """The answer to a submission."""
    return Submitted(task(shown), shown["fresh"], shown.get("purged", False))


def queue(shown: Mapping[str, Any]) -> QueueInfo:
    """A queue from its record."""
    said = shown.get("rate")
    known = read(QueueInfo, {**shown, "rate": None})
    return known if said is None else msgspec.structs.replace(known, rate=rate.parse(said))


def read(kind: type[T], shown: Mapping[str, Any]) -> T:
    """Any other record."""
    return msgspec.convert(_times_read(shown), kind)


def _times_read(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _field(name, value) for name, value in shown.items()}


def _field(name: str, value: Any) -> Any:
    if isinstance(value, str) and (name in codec.TIMES or name.endswith("_at")):
        return instant(value)
    if name in ("error", "progress", "usage") and isinstance(value, dict):
        return _times_read(value)
    if name == "data":
        return _value(value)
    return value


def _value(value: Any) -> Value:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    found: JSON = value
    return found


def submission(new: NewTask) -> dict[str, JSON]:
    """What asks for this task."""
    codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)  # says what is wrong with it
    shown: dict[str, Any] = {"id": new.id, "queue": new.queue}
    if isinstance(new.parameters, bytes | bytearray | memoryview):
        shown["parameters"] = {"base64": base64.b64encode(new.parameters).decode()}
    else:
        if isinstance(new.parameters, dict) and new.parameters.keys() == {"base64"}:
            raise BadInput('parameters: over HTTP {"base64": …} stands for bytes: pass them so')
        shown["parameters"] = new.parameters
    for name in _PLAIN:
        shown[name] = getattr(new, name)
    if new.unique is not None:
        shown["unique"] = new.unique
        shown["unique_while"] = new.unique_while
        shown["unique_for"] = new.unique_for
    default = Policy()
    for name in codec.POLICY:
        if (value := getattr(new.policy, name)) != getattr(default, name):
            shown[name] = value
    return {name: value for name, value in shown.items() if value is not None}
