"""What the submitter decides about a task's life: asked for in plain words, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from stayer.core.errors import BadInput
from stayer.core.fields import MOST, SUBMISSION
from stayer.core.limits import check_count, quote
from stayer.core.model import Policy
from stayer.core.retries import DEFAULT_WAIT
from stayer.core.submit.names import check_word
from stayer.core.units import CENTURY

_MOST_RETRIES = 2**31
_LIMITS = ("time_limit", "silence_limit", "memory_limit")
_FIELDS = {name: field for name, field in SUBMISSION.items() if field.home is Policy}
_AMOUNTS = tuple(
    name
    for name, field in _FIELDS.items()
    if field.kind in ("seconds", "bytes") and field.optional and name != "near_wait"
)
_WAITS = tuple(
    name for name, field in _FIELDS.items() if field.kind == "seconds" and name not in _AMOUNTS
)
_FACTORS = tuple(name for name, field in _FIELDS.items() if field.kind == "number")
_LISTS = frozenset(name for name, field in _FIELDS.items() if field.kind == "words")
_WORDS = tuple(name for name, field in _FIELDS.items() if field.kind == "text" and name != "near")


def check_policy(**options: Any) -> Policy:
    """Make a policy that makes sense, or raise BadInput that says what to fix. None means the
    default.
    """
    fields = options
    if None in options.values():
        fields = {name: value for name, value in options.items() if value is not None}
    if not fields.keys().isdisjoint(_LISTS):
        for name in _LISTS & fields.keys():
            fields[name] = _patterns(name, fields[name])
    try:
        return _make_policy(**fields)
    except TypeError:  # something in it can't be kept, or compared: it is looked at each time
        return _make_policy.__wrapped__(**fields)


def named_fields(policy: Policy) -> dict[str, Any]:
    """Say what a submission has to name to get this policy: all that is not the default. Who has
    retries and names no wait gets the usual one, so none has to be named.
    """
    default = Policy()
    names = (name for name, field in SUBMISSION.items() if field.home is Policy)
    values = {name: getattr(policy, name) for name in names}
    named = {name: value for name, value in values.items() if value != getattr(default, name)}
    return {**named, "retry_wait": policy.retry_wait} if policy.retries else named


@lru_cache(maxsize=256, typed=True)
def _make_policy(**fields: Any) -> Policy:
    """Few differ, and checking one costs as much as all the rest of a new task."""
    if fields.get("retries"):
        fields.setdefault("retry_wait", DEFAULT_WAIT)
    policy = Policy(**fields)
    check(policy)
    for name in _LIMITS:
        # In a record, 0 is what `stayer set --time-limit none` leaves: no limit, whatever the
        # worker says. Whoever submits a task with 0 may as well mean that it is to end at once.
        if getattr(policy, name) == 0:
            raise BadInput(
                f"{name} {quote(fields[name])} leaves nothing: leave it out for no limit of its own"
            )
    return policy


def check(policy: Policy) -> None:
    """BadInput if it asks for what can't be."""
    retries = policy.retries
    if (
        isinstance(retries, bool)
        or not isinstance(retries, int)
        or not 0 <= retries < _MOST_RETRIES
    ):
        raise BadInput(
            f"retries {quote(retries)}: give a whole number from 0 to {_MOST_RETRIES - 1}"
        )
    for name in _AMOUNTS:
        value = getattr(policy, name)
        if value is None:
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value <= CENTURY**2
        ):
            unit = _FIELDS[name].kind
            raise BadInput(f"{name} {quote(value)}: give a number of {unit}")
    for name in _WAITS:
        value = getattr(policy, name)
        if value is not None and not 0 <= value <= CENTURY:
            raise BadInput(f"{name} {quote(value)}: give seconds from 0 to 100 years")
    for name in _WORDS:
        if (word := getattr(policy, name)) is not None:
            check_word(name, word, MOST[name].characters)
    if policy.near_wait is not None and policy.near is None:
        raise BadInput("near_wait goes with near: say which task it is to run near")
    for name in _FACTORS:
        if not 1 <= getattr(policy, name) <= 100:
            raise BadInput(f"{name} {quote(getattr(policy, name))}: give a factor from 1 to 100")
    for what in ("time", "memory"):
        if getattr(policy, f"{what}_growth") > 1 and not getattr(policy, f"{what}_limit"):
            raise BadInput(f"{what}_growth lets {what}_limit grow: give that one too")
    if policy.fence not in (None, "freeze", "kill"):
        raise BadInput(
            f"fence {quote(policy.fence)}: a task is to `freeze` or to `kill` when its worker "
            "loses its lease; `keep` is a worker's to say"
        )
    if policy.when_failed not in ("cancel", "run", "hold"):
        raise BadInput(
            f"when_failed {quote(policy.when_failed)}: say `cancel`, `run` or `hold`, for what "
            "becomes of the task when one that it is to run after fails"
        )


def _patterns(what: str, patterns: object) -> tuple[str, ...]:
    if isinstance(patterns, str):
        raise BadInput(
            f"{what} {quote(patterns)}: give a list of names, such as [{quote(patterns)}]"
        )
    if not isinstance(patterns, Sequence):
        raise BadInput(f"{what} {quote(patterns)}: give a list of names")
    check_count(what, patterns, MOST[what].items)
    for pattern in patterns:
        check_word(what, pattern)
    return tuple(patterns)
