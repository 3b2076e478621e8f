"""New tasks as the scripts get them (`lib/submit.lua` names the parts)."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core import codec
from stayer.core.model import NewTask
from stayer.stores.redis.changes import Arguments
from stayer.stores.redis.record import PARAMETERS_BYTES, PARAMETERS_TEXT, Raw, apart, from_new

_AT_ONCE = 1000
"""How many tasks may be in a group: each is a few arguments of a command in Lua."""


def packed_groups(tasks: Sequence[NewTask], arguments: Arguments) -> list[Raw]:
    """Neighbours that differ in nothing that the indexes know are a group."""
    forms = [codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT) for new in tasks]
    groups: list[Raw] = []
    likeness: Raw = None
    for new, form in zip(tasks, forms, strict=True):
        mine = _likeness(new)
        number = arguments.add(from_new(new, form))
        if mine != likeness or len(groups[-1][9]) == _AT_ONCE:
            likeness = mine
            groups.append((*mine, number, [], []))
        groups[-1][9].append(new.id)
        groups[-1][10].append(form if form is not None and apart(form) else False)
    for group in groups:
        group[10][:] = [
            False if form is False else _kept_apart(form, arguments) for form in group[10]
        ]
    return groups


def _likeness(new: NewTask) -> tuple[Raw, ...]:
    return (
        new.queue, _lane(new), new.priority, new.held, new.generated,
        None if new.delay is None else float(new.delay),
        new.eta is not None, new.unique is not None,
    )  # fmt: skip


def _lane(new: NewTask) -> str:
    """Which handler it needs."""
    if new.command:
        return f"command {new.command[0]}"
    return "" if new.name is None else f"name {new.name}"


def _kept_apart(form: str | bytes, arguments: Arguments) -> tuple[int, int]:
    flag = PARAMETERS_BYTES if isinstance(form, bytes) else PARAMETERS_TEXT
    return flag, arguments.add(form)
