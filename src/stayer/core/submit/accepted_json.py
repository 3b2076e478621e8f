"""The record of a task that was just accepted, as JSON: what `codec.record` says, sooner.

Most new tasks have a queue, parameters, an owner, and nothing else; and whoever submits many says
the same of all of them but for id, parameters and time. So what stands between these is made once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from stayer.core import codec
from stayer.core.fields import SUBMISSION
from stayer.core.model import JSON, Task
from stayer.core.units import rfc3339

_HOLES = ("id", "parameters", "created", "updated")
"""What differs from task to task, in the order of the record."""
_COMMON = tuple(name for name in Task.__struct_fields__ if name not in _HOLES)
_common: Callable[[Task], tuple[Any, ...]] = attrgetter(*_COMMON)
_rare: Callable[[Task], tuple[Any, ...]] = attrgetter(
    *(
        field.name
        for field in SUBMISSION.values()
        if field.home is Task and field.kind in ("moment", "variables", "object")
    )
)
"""A moment is hardly ever that of another task, and variables and objects can't be compared."""
_NOTHING = (None,) * len(_rare(Task("", "")))
_HOLE = msgspec.Raw(b"\0")
"""Where something is to be filled in: JSON itself writes this byte otherwise."""
_encode = msgspec.json.Encoder().encode


def encode_accepted(task: Task) -> bytes:
    """Encode the record of a fresh task, and that it is fresh."""
    if _rare(task) != _NOTHING or isinstance(task.parameters, bytes):
        return _encode({**codec.record(task), "fresh": True})
    begin, before_parameters, before_created, before_updated, end = _frame(_common(task))
    created = _at(task.created)
    updated = created if task.updated == task.created else _at(task.updated)
    return b"".join((
        begin, _encode(task.id), before_parameters, _encode(task.parameters), before_created,
        created, before_updated, updated, end,
    ))  # fmt: skip


@lru_cache(maxsize=256)
def _frame(common: tuple[Any, ...]) -> tuple[bytes, ...]:
    sample = Task(id="", **dict(zip(_COMMON, common, strict=True)))
    shown: dict[str, JSON | msgspec.Raw] = {**codec.record(sample), "fresh": True}
    shown.update(dict.fromkeys(_HOLES, _HOLE))
    return tuple(_encode(shown).split(bytes(_HOLE)))


@lru_cache(maxsize=16)
def _at(moment: float) -> bytes:
    """Format a moment. Those that were accepted together have it in common."""
    return _encode(rfc3339(moment))
