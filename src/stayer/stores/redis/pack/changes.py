"""Changes as the scripts get them (`lib/change.lua` names the parts)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import UNSET

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.fields import STORED
from stayer.core.model import Change, Effect
from stayer.stores.redis.record import (
    NUMBER_OF,
    PARAMETERS_BYTES,
    PARAMETERS_TEXT,
    RESULT_BYTES,
    RESULT_TEXT,
    Raw,
    apart,
    pack_order,
    text,
)

_NONE = 0
_KIND_OF = {field.name: field.kind for field in STORED}
_WHAT_RUNS = frozenset(("name", "command"))
"""What the lane of a task follows from."""
GROUP_FIELDS = (
    "state", "worker", "last_order", "late", "losses", "unique_is_free", "to", "sets", "times",
    "moment", "event", "note", "ending", "fault", "pid", "words", "waits", "ends", "ends_run",
    "forgets", "wakes_queue", "wakes_worker", "ids", "attempts", "results", "ago", "checkpoint",
    "parameters", "runs_other",
)  # fmt: skip
"""The parts of a group of changes (`lib/change.lua` says what they are)."""


class Arguments:
    """What goes to a script behind its fixed arguments: values that are kept apart."""

    def __init__(self, fixed: int) -> None:
        self.values: list[str | bytes] = []
        self._fixed = fixed

    def add(self, value: str | bytes) -> int:
        """Return the number under which the script finds it."""
        self.values.append(value)
        return self._fixed + len(self.values)


def pack_changes(changes: Sequence[Change], arguments: Arguments) -> list[Raw]:
    """Neighbours that differ in nothing but task, attempt and result are a group; all are groups of
    one if there are two of a task.
    """
    groups: list[Raw] = []
    leader: Change | None = None
    twice = len({change.id for change in changes}) < len(changes)
    for change in changes:
        if leader is None or twice or not _is_alike(change, leader):
            leader = change
            ids: list[str] = []
            attempts: list[int] = []
            results: list[Raw] = []
            saved = change.checkpoint
            own = (
                change.ago,
                False if saved is None else arguments.add(saved),
                _parameters(change, arguments),
                not change.effect.sets.keys().isdisjoint(_WHAT_RUNS),
            )
            groups.append((*_fence(change), *_effect(change.effect), ids, attempts, results, *own))
        ids.append(change.id)
        attempts.append(change.attempt)
        results.append(_result(change, arguments))
    return groups


def _is_alike(change: Change, leader: Change) -> bool:
    """Return whether it can stand in the group of another."""
    return (
        (change.effect is leader.effect or change.effect == leader.effect)
        and change.state == leader.state
        and change.worker == leader.worker
        and change.last_order == leader.last_order
        and change.ago == leader.ago == 0
        and change.losses_before is None is leader.losses_before
        and change.checkpoint is None is leader.checkpoint
        and change.parameters is UNSET is leader.parameters
    )


def _fence(change: Change) -> tuple[Raw, ...]:
    """Return what must still hold, besides the attempt."""
    before = change.losses_before
    return (
        change.state,
        False if change.worker is None else change.worker,
        change.last_order,
        change.late,
        False if before is None else before,
        change.unique_is_free,
    )


def _effect(effect: Effect) -> tuple[Raw, ...]:
    sets: list[Raw] = []
    for field, value in effect.sets.items():
        sets += NUMBER_OF[field], _pack_field(field, value)
    times: list[Raw] = []
    for field, seconds in effect.times.items():
        times += NUMBER_OF[field], _check_finite(field, seconds)
    news = effect.attempt
    return (
        effect.to,
        sets,
        times,
        False if effect.moment is None else NUMBER_OF[effect.moment],
        False if effect.event is None else effect.event,
        False if effect.note is None else effect.note,
        False if news is None or news.ending is None else news.ending,
        False if news is None else text(news.error),
        False if news is None or news.pid is None else news.pid,
        effect.hook_words or False,
        effect.waits or False,  # to wait for nothing follows from the state, as all indexes do
        effect.ends,
        effect.ends_run,
        effect.forgets_checkpoint,
        effect.wakes_queue,
        effect.wakes_worker,
    )


def _pack_field(field: str, value: Raw) -> Raw:
    """Return a value as the record has it; what is not there is false."""
    match _KIND_OF[field]:
        case "variables" | "object" | "struct":
            return text(value)
        case "structs":
            return [pack_order(order) for order in value] or False
        case "words":
            return value or False
        case _:
            return False if value is None else value


def _result(change: Change, arguments: Arguments) -> Raw:
    """Return the result as it is kept, or how and where it is; false if it stays."""
    if change.result is UNSET:
        return False
    form = codec.pack(change.result, "result", codec.RESULT_LIMIT)
    return _value(form, RESULT_TEXT, RESULT_BYTES, arguments)


def _parameters(change: Change, arguments: Arguments) -> Raw:
    """Pack what becomes of the parameters."""
    if change.parameters is UNSET:
        return False
    form = codec.pack(change.parameters, "parameters", codec.PARAMETERS_LIMIT)
    return _value(form, PARAMETERS_TEXT, PARAMETERS_BYTES, arguments)


def _value(form: str | bytes | None, as_text: int, as_bytes: int, arguments: Arguments) -> Raw:
    if form is None:
        return _NONE
    if isinstance(form, bytes):
        return as_bytes, arguments.add(form)
    if apart(form):
        return as_text, arguments.add(form)
    return form


def _check_finite(field: str, seconds: float) -> float:
    """Check a number of seconds: the server would refuse anything else in the midst of
    the change.
    """
    if not math.isfinite(seconds):
        what = "delay" if field == "eta" else field
        raise BadInput(f"{what} {seconds!r}: give a number of seconds")
    return float(seconds)
