"""The task that a submission makes, before anything has happened to it."""

from __future__ import annotations

from collections.abc import Callable

from stayer.core import generated
from stayer.core.fields import STORED, Field
from stayer.core.model import NewTask, State, Task

BY_STORE = {
    "state": "state",
    "created": "at",
    "updated": "at",
    "eta": "eta",
    "start_before": "start_before",
    "upstreams": "upstreams",
    "dependents": "dependents",
}
"""What the store finds out when it accepts a task, by field: the arguments of `fresh_task`. All
else is what the NewTask says, or the default."""


def _value(field: Field) -> str:
    """Return what a fresh task has in a field; simple defaults are written out, which
    is quicker.
    """
    if field.name in BY_STORE:
        return BY_STORE[field.name]
    if field.is_submitted:
        return f"new.{field.name}"
    is_simple = field.default in (None, ()) or field.kind in _SIMPLE
    return repr(field.default) if is_simple else f"_{field.name}"


_SIMPLE = ("text", "choice", "whole", "number", "flag", "moment", "seconds", "bytes")


def _source() -> str:
    return (
        "def fresh_task(new, at, state, eta, start_before, upstreams, dependents):\n"
        f"    return Task({', '.join(map(_value, STORED))})\n"
    )


fresh_task: Callable[[NewTask, float, State, float | None, float | None, int, bool], Task] = (
    generated.function(
        "fresh_task",
        _source(),
        {"Task": Task, **{f"_{field.name}": field.default for field in STORED}},
    )
)
"""The task that is there once a NewTask was accepted: at which moment, in which state, when it is
due and when it expires, for how many others it waits, and whether others wait for it.
"""
