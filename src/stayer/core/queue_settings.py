"""Settings of a queue as people write them, and the checks that every door shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, get_args

from stayer.core.errors import BadInput
from stayer.core.limits import QUEUE, check_count, quote
from stayer.core.notify import notices
from stayer.core.ordering import rate_limit as rate
from stayer.core.queue_model import KEPT, Fair, Kept, QueueSettings
from stayer.core.submit.defaults import parse_defaults
from stayer.core.submit.names import check_word
from stayer.core.units import CENTURY

FAIR: tuple[Fair, ...] = get_args(Fair)
LIMITS = ("limit", "key_limit", "key_limits", "rate", "fair", "notify", "defaults")
"""What a file may say of a queue."""


class WrittenSettings(TypedDict, total=False):
    """What is to be changed in a queue; None takes it away, and what is not named stays."""

    paused: bool
    limit: int | None
    """How many of its tasks may run at once."""
    key_limit: int | None
    """How many tasks of any one key may run at once."""
    key_limits: Mapping[str, int | None]
    """The same for single keys; None for one: as any other."""
    rate: str | None
    """How many of its tasks may begin in which time: `100/1h`."""
    fair: Fair | None
    """Among tasks of equal priority, the owner (or key) that has used least goes first."""
    notify: Sequence[str] | None
    """Whom to tell of what becomes of its tasks: `mail`, `failed:https://…`."""
    defaults: Mapping[str, Any]
    """For fields that its tasks do not say, as JSON says them; None takes one away."""
    retention: Mapping[Kept, float | None]
    """For how many seconds what is kept; None: as the workers are told."""


def read(written: WrittenSettings) -> QueueSettings:
    """Read the settings that are meant, or raise BadInput that says what to fix."""
    found: QueueSettings = {}
    if "paused" in written:
        found["paused"] = bool(written["paused"])
    if "limit" in written:
        found["limit"] = _check_limit("limit", written["limit"])
    if "key_limit" in written:
        found["key_limit"] = _check_limit("key_limit", written["key_limit"])
    if "key_limits" in written:
        found["key_limits"] = _single(written["key_limits"])
    if "rate" in written:
        rate_text = written["rate"]
        found["rate"] = None if rate_text is None else rate.parse(rate_text)
    if "fair" in written:
        found["fair"] = written["fair"]
        if written["fair"] not in (*FAIR, None):
            raise BadInput(f"fair {quote(written['fair'])}: those who take turns are owner or key")
    if "notify" in written:
        found["notify"] = notices.parse_all(written["notify"] or ())
    if "defaults" in written:
        found["defaults"] = parse_defaults(written["defaults"])
    if "retention" in written:
        found["retention"] = _retention(written["retention"])
    return found


def _retention(kept: Mapping[Kept, float | None]) -> dict[Kept, float | None]:
    if not isinstance(kept, Mapping) or not set(kept) <= set(KEPT):
        raise BadInput(f"retention {quote(kept)}: give seconds by what is kept: {', '.join(KEPT)}")
    for what, seconds in kept.items():
        if seconds is not None and not (
            isinstance(seconds, int | float) and 0 <= seconds <= CENTURY
        ):
            raise BadInput(
                f"retention of {what} {quote(seconds)}: give seconds from 0 to 100 years, or None "
                "for as long as the workers are told"
            )
    return dict(kept)


def _single(limits: Mapping[str, int | None]) -> dict[str, int | None]:
    if not isinstance(limits, Mapping):
        raise BadInput(f'key_limits {quote(limits)}: give limits by key, such as {{"ann": 3}}')
    check_count("key_limits", limits, QUEUE["key_limits"].items)
    for key in limits:
        check_word("key", key)
    return {key: _check_limit(f"limit of key {key}", limit) for key, limit in limits.items()}


def merge_key_limits(there: Mapping[str, int], changed: Mapping[str, int | None]) -> dict[str, int]:
    """Merge these changes into the limits of single keys; BadInput if they are too many then."""
    both = {**there, **changed}
    kept = {key: limit for key, limit in both.items() if limit is not None}
    if len(kept) > len(there):
        refuse_key_limits(len(kept))
    return kept


def refuse_key_limits(number: int) -> None:
    """BadInput if a queue may not have so many: each reserve looks at them."""
    most = QUEUE["key_limits"].items
    assert most is not None
    if number > most:
        raise BadInput(
            f"key_limits: the queue would have {number:,}, at most {most:,} fit: set key_limit for "
            "all, or take some away"
        )


def _check_limit(what: str, limit: int | None) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit < 2**31:
        raise BadInput(
            f"{what} {quote(limit)}: give a whole number from 1 on, or None for no limit; pause "
            "the queue to let nothing run"
        )
    return limit
