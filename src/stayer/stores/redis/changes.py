"""Changes as the scripts get them (`lib/change.lua` names the parts)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from stayer.core import codec
from stayer.core.model import Change
from stayer.stores.redis.record import (
    NUMBER_OF,
    RESULT_BYTES,
    RESULT_TEXT,
    Raw,
    apart,
    packed_order,
    text,
)

_PLAIN = ("held", "pid", "failures", "interruptions", "losses", "priority")
_NONE, _IN_RECORD = 0, 1


class Arguments:
    """What goes to a script behind its fixed arguments: values that are kept apart."""

    def __init__(self, fixed: int) -> None:
        self.values: list[str | bytes] = []
        self._fixed = fixed

    def add(self, value: str | bytes) -> int:
        """The number under which the script finds it."""
        self.values.append(value)
        return self._fixed + len(self.values)


def packed(changes: Sequence[Change], arguments: Arguments) -> list[Raw]:
    """Each change as an array."""
    return [_packed(change, arguments) for change in changes]


def _packed(change: Change, arguments: Arguments) -> tuple[Raw, ...]:
    form, result = _result(change, arguments)
    delay = change.delay
    return (
        change.id, change.state, change.worker or False, change.attempt, change.last_order,
        change.to, change.ending or False, change.order, change.returned, change.late,
        False if change.note is None else change.note,
        False if delay is UNSET else True if delay is None else float(delay),
        _sets(change), form, result,
    )  # fmt: skip


def _sets(change: Change) -> list[Raw]:
    """Number and value of each field that the change names."""
    sets: list[Raw] = []
    for field in _PLAIN:
        value = getattr(change, field)
        if value is not UNSET:
            sets += NUMBER_OF[field], False if value is None else value
    if change.error is not UNSET:
        sets += NUMBER_OF["error"], text(change.error)
    if change.policy is not UNSET:
        sets += NUMBER_OF["policy"], text(change.policy)
    if change.orders is not UNSET:
        sets += NUMBER_OF["orders"], [packed_order(order) for order in change.orders] or False
    return sets


def _result(change: Change, arguments: Arguments) -> tuple[int | bool, str | int]:
    if change.result is UNSET:
        return False, 0
    form = codec.pack(change.result, "result", codec.RESULT_LIMIT)
    if form is None:
        return _NONE, 0
    if isinstance(form, bytes):
        return RESULT_BYTES, arguments.add(form)
    if apart(form):
        return RESULT_TEXT, arguments.add(form)
    return _IN_RECORD, form
