"""Changes as the scripts get them (`lib/change.lua` names the parts)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import UNSET

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import Change
from stayer.core.notify.notices import words
from stayer.stores.redis.record import (
    NUMBER_OF,
    RESULT_BYTES,
    RESULT_TEXT,
    Raw,
    apart,
    packed_order,
    text,
)

_PLAIN = [
    (field, NUMBER_OF[field])
    for field in ("held", "pid", "failures", "interruptions", "losses", "priority")
]
_ERROR, _POLICY, _ORDERS = NUMBER_OF["error"], NUMBER_OF["policy"], NUMBER_OF["orders"]
_FINGERPRINT, _NOTIFY = NUMBER_OF["fingerprint"], NUMBER_OF["notify"]
_NEAR_NODE, _NEAR_UNTIL = NUMBER_OF["near_node"], NUMBER_OF["near_until"]
_NONE = 0
GROUP_FIELDS = (
    "state", "worker", "last_order", "to", "ending", "order", "returned", "late", "note", "delay",
    "same_error", "same_orders", "from_start", "waits", "sets", "words", "ids", "attempts",
    "results", "ago", "losses", "checkpoint",
)  # fmt: skip
"""The parts of a group of changes (`lib/change.lua` says what they are)."""


class Arguments:
    """What goes to a script behind its fixed arguments: values that are kept apart."""

    def __init__(self, fixed: int) -> None:
        self.values: list[str | bytes] = []
        self._fixed = fixed

    def add(self, value: str | bytes) -> int:
        """The number under which the script finds it."""
        self.values.append(value)
        return self._fixed + len(self.values)


def packed_groups(changes: Sequence[Change], arguments: Arguments) -> list[Raw]:
    """Neighbours that differ in nothing but task, attempt and result are a group; all are groups of
    one if there are two of a task.
    """
    groups: list[Raw] = []
    likeness: Raw = None
    twice = len({change.id for change in changes}) < len(changes)
    for change in changes:
        mine, special = _likeness(change), twice or _is_special(change)
        if special or mine != likeness:
            likeness = None if special else mine
            waits = False if change.waits is UNSET else change.waits
            ids: list[str] = []
            attempts: list[int] = []
            results: list[Raw] = []
            said = words(change) or False
            group = (*mine, waits, _sets(change), said, ids, attempts, results, change.ago)
            groups.append((*group, *_rare(change, arguments)))
        ids.append(change.id)
        attempts.append(change.attempt)
        results.append(_result(change, arguments))
    return groups


def _likeness(change: Change) -> tuple[Raw, ...]:
    """All that a group has in common."""
    delay = change.delay
    return (
        change.state, change.worker or False, change.last_order, change.to, change.ending or False,
        change.order, change.returned, change.late,
        False if change.note is None else change.note,
        None if delay is UNSET else "none" if delay is None else _checked(delay),
        change.error is UNSET, change.orders is UNSET, change.from_start,
    )  # fmt: skip


def _rare(change: Change, arguments: Arguments) -> tuple[Raw, Raw]:
    """What a change has that stands alone: the losses that it counted from, and a checkpoint."""
    before, saved = change.losses_before, change.checkpoint
    return (
        False if before is None else before,
        False if saved is None else arguments.add(saved),
    )


def _is_special(change: Change) -> bool:
    """It sets what is rarely alike in two changes."""
    said = (change.orders, change.error, change.policy, change.waits, change.near)
    return (
        any(said)
        or change.fingerprint is not None
        or change.ago != 0
        or change.losses_before is not None
        or change.checkpoint is not None
        or not (
            change.held is UNSET
            and change.pid is UNSET
            and change.failures is UNSET
            and change.interruptions is UNSET
            and change.losses is UNSET
            and change.priority is UNSET
            and change.notify is UNSET
        )
    )


def _sets(change: Change) -> list[Raw]:
    """Number and value of each field that the change names."""
    sets: list[Raw] = []
    for field, number in _PLAIN:
        value = getattr(change, field)
        if value is not UNSET:
            sets += number, False if value is None else value
    if change.error is not UNSET:
        sets += _ERROR, text(change.error)
    if change.policy is not UNSET:
        sets += _POLICY, text(change.policy)
    if change.notify is not UNSET:
        sets += _NOTIFY, change.notify or False
    if change.orders is not UNSET:
        sets += _ORDERS, [packed_order(order) for order in change.orders] or False
    if change.near is not None:
        node, wait = change.near
        sets += _NEAR_NODE, node, _NEAR_UNTIL, wait  # to which the script adds its time
    if change.fingerprint is not None:
        sets += _FINGERPRINT, change.fingerprint
    return sets


def _result(change: Change, arguments: Arguments) -> Raw:
    """The result as it is kept, or how and where it is; false if it stays."""
    if change.result is UNSET:
        return False
    form = codec.pack(change.result, "result", codec.RESULT_LIMIT)
    if form is None:
        return _NONE
    if isinstance(form, bytes):
        return RESULT_BYTES, arguments.add(form)
    if apart(form):
        return RESULT_TEXT, arguments.add(form)
    return form


def _checked(delay: float) -> float:
    """The server would refuse anything else in the midst of the change."""
    if not math.isfinite(delay):
        raise BadInput(f"delay {delay!r}: give a number of seconds")
    return float(delay)
