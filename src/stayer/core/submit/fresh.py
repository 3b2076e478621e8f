"""The task that a submission makes, before anything has happened to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stayer.core import generated
from stayer.core.fields import STORED, Field
from stayer.core.model import NewTask, State, Task

BY_STORE = {
    "state": "state",
    "created": "at",
    "updated": "at",
    "eta": "eta",
    "start_before": "start_before",
    "finish_before": "finish_before",
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
        "def fresh_task(new, at, state, eta, start_before, finish_before, upstreams, dependents):\n"
        f"    return Task({', '.join(map(_value, STORED))})\n"
    )


Moments: TypeAlias = tuple[float | None, float | None, float | None]


def moments(new: NewTask, now: float) -> Moments:
    """Work out when a task that is accepted now is due, when it expires unless it was started, and
    when it has to have ended.
    """
    eta = now + new.delay if new.delay is not None else new.eta
    start = now + new.expire if new.expire is not None else new.start_before
    finish = None if new.policy.deadline is None else now + new.policy.deadline
    if finish is not None:
        start = finish if start is None else min(start, finish)
    return (
        None if eta is None else float(eta),
        None if start is None else float(start),
        None if finish is None else float(finish),
    )


fresh_task: Callable[
    [NewTask, float, State, float | None, float | None, float | None, int, bool], Task
] = generated.function(
    "fresh_task",
    _source(),
    {"Task": Task, **{f"_{field.name}": field.default for field in STORED}},
)
"""The task that is there once a NewTask was accepted: at which moment, in which state, when it is
due, when it expires and when it has to have ended (see `moments`), for how many others it waits,
and whether others wait for it.
"""
