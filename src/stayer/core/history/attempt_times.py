"""When an attempt began and ended, from what is remembered of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def moment_of(heard_at: float, was_at: float | None, attempt: Mapping[str, Any]) -> float:
    """Return when the attempt, of which so much is known, began or ended: if the store heard of it
    late, when it was, but not before what it knows to have been earlier: clocks may be set back.
    """
    moment = heard_at if was_at is None else was_at
    earlier = attempt.get("started_at") or attempt.get("reserved_at")
    return moment if earlier is None else max(moment, earlier)
