"""The record of a task that was just accepted, as JSON: what `codec.record` says, sooner.

Most new tasks have a queue, parameters, an owner, and nothing else; and whoever submits many says
the same of all of them but for id, parameters and time. So what stands between these is made once.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from stayer.core import codec
from stayer.core.model import JSON, Policy, State, Task
from stayer.core.units import rfc3339

_HOLE = msgspec.Raw(b"\0")
"""Where something is to be filled in: JSON itself writes this byte otherwise."""
_encode = msgspec.json.Encoder().encode


def accepted(task: Task) -> bytes:
    """The record of a fresh task, and that it is fresh."""
    if _is_unusual(task):
        return _encode({**codec.record(task), "fresh": True})
    begin, before_parameters, before_created, before_updated, end = _frame(
        task.queue, task.name, task.state, task.held, task.priority, task.owner, task.key,
        task.policy,
    )  # fmt: skip
    created = _at(task.created)
    updated = created if task.updated == task.created else _at(task.updated)
    return b"".join((
        begin, _encode(task.id), before_parameters, _encode(task.parameters), before_created,
        created, before_updated, updated, end,
    ))  # fmt: skip


def _is_unusual(task: Task) -> bool:
    """It has something that is not worth a frame, or that JSON says otherwise."""
    return (
        task.command is not None
        or task.env is not None
        or task.cwd is not None
        or bool(task.tags)
        or task.eta is not None
        or task.start_before is not None
        or task.flow is not None
        or task.upstreams != 0
        or task.unique is not None
        or type(task.parameters) is bytes
    )


@lru_cache(maxsize=256)
def _frame(
    queue: str, name: str | None, state: State, held: bool, priority: int, owner: str | None,
    key: str | None, policy: Policy,
) -> tuple[bytes, ...]:  # fmt: skip
    sample = Task(
        "", queue, name, state=state, held=held, priority=priority, owner=owner, key=key,
        policy=policy,
    )  # fmt: skip
    shown: dict[str, JSON | msgspec.Raw] = {**codec.record(sample), "fresh": True}
    for name_of_hole in ("id", "parameters", "created", "updated"):
        shown[name_of_hole] = _HOLE
    return tuple(_encode(shown).split(bytes(_HOLE)))


@lru_cache(maxsize=16)
def _at(moment: float) -> bytes:
    """Those that were accepted together have it in common."""
    return _encode(rfc3339(moment))
