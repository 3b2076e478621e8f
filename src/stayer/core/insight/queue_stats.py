"""What a queue did in a stretch of time: for charts, and for whoever asks how it was last month."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.model import JSON
from stayer.core.units import rfc3339

DAY = 86400

KEPT = {60: 2 * DAY, 3600: 90 * DAY, DAY: 730 * DAY}
"""Lengths of a stretch, in seconds, and for how long figures of it are kept."""

MADE_UP_FOR = 3600
"""How far back minutes are counted that nobody looked at, in seconds."""


class Figures(Struct, frozen=True, kw_only=True):
    """One stretch. Of several minutes, what was measured is the most, what was counted the sum."""

    at: float
    """When it began."""
    queue: str = ""
    """Empty: all queues together."""
    depth: int | None = None
    """How many tasks were pending at its end; None, here and below: nobody looked."""
    running: int | None = None
    age: float | None = None
    """How long the oldest task that could be taken had waited, in seconds."""
    submitted: int = 0
    complete: int = 0
    failed: int = 0
    cancelled: int = 0
    ran: float = 0.0
    """Seconds that those which ended had run, in their last attempt."""
    waited: float = 0.0
    """Seconds from their submission to the start of that attempt."""


MEASURED = ("depth", "running", "age")
COUNTED = ("submitted", "complete", "failed", "cancelled", "ran", "waited")


def level(step: float, back: float) -> int:
    """Return the length of the stretches that make up a chart of this step which goes so far back:
    the longest that fit into a step, and are kept for so long; else the finest that are.
    """
    kept = [length for length, age in KEPT.items() if back <= age] or [max(KEPT)]
    return max((length for length in kept if length <= step), default=min(kept))


def together(points: Iterable[Figures], step: float) -> list[Figures]:
    """Gathered into longer stretches, which begin at multiples of the step."""
    found: dict[tuple[float, str], Figures] = {}
    for point in points:
        at = math.floor(point.at / step) * step
        known = found.get((at, point.queue))
        found[at, point.queue] = _at_time(point, at) if known is None else _join(known, point)
    return [found[key] for key in sorted(found)]


def total(points: Iterable[Figures]) -> list[Figures]:
    """Add up several queues: the age is that of the oldest; what nobody knows adds nothing."""
    found: dict[float, Figures] = {}
    for point in points:
        known = found.get(point.at)
        whole = replace(point, queue="")
        found[point.at] = whole if known is None else _add(known, whole)
    return [found[at] for at in sorted(found)]


def _add(one: Figures, other: Figures) -> Figures:
    sums: dict[str, Any] = {}
    for name in (*MEASURED, *COUNTED):
        known = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        sums[name] = (max if name == "age" else sum)(known) if known else None
    return replace(one, **sums)


def _at_time(point: Figures, at: float) -> Figures:
    values = {name: getattr(point, name) for name in (*MEASURED, *COUNTED)}
    return Figures(at=at, queue=point.queue, **values)


def _join(one: Figures, other: Figures) -> Figures:
    values: dict[str, Any] = {
        name: max(
            (each for each in (getattr(one, name), getattr(other, name)) if each is not None),
            default=None,
        )
        for name in MEASURED
    }
    values |= {name: getattr(one, name) + getattr(other, name) for name in COUNTED}
    return Figures(at=one.at, queue=one.queue, **values)


def record(figures: Figures) -> dict[str, JSON]:
    """Return it as JSON: null for the queue is all of them together."""
    values: dict[str, JSON] = {
        name: getattr(figures, name) for name in ("queue", *MEASURED, *COUNTED)
    }
    return {"at": rfc3339(figures.at), **values, "queue": figures.queue or None}
