"""When a task will start and end, from how long those before it took.

The workers of a queue are so many slots. Each is free now, or when what it runs has ended; whoever
stands first takes the slot that is free first. This is reckoned three times: as if all tasks took
as long as the lower quartile of their kind, as the median, and as the upper quartile. The
truth lies between the outer two more often than not.

A forecast that rests on next to nothing is worse than none: a start is forecast only if enough is
known of all that come before it; an end, of few of the same kind, within a wide range.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from stayer.core.insight.explanation import Forecast, Span

_SPREAD_OF_REPORTED = (0.75, 1.0, 1.5)
"""How far what a task itself says of its end is believed."""
ENOUGH = 3
"""So many tasks of a kind tell how long the next one takes."""
_ENOUGH_OTHERS = 10
"""So many of any kind stand in for one of which there was none."""
_FEW_SAMPLES_FACTOR = 2.0
"""By this factor, either way, a task may differ from the few of its kind that there were."""

_OVERDUE_FACTOR = 2.0

Durations = Mapping[str, Sequence[float]]
"""How long finished tasks took, by their kind."""


class Runs(Struct, frozen=True):
    """A task that occupies a slot: its kind, for how long already, and what it says is left."""

    kind: str
    ran: float
    reported: float | None = None


class Line(Struct, frozen=True, kw_only=True):
    """What stands between a task and its start."""

    slots: int
    running: Sequence[Runs] = ()
    ahead: Sequence[str] = ()
    """The kinds of those that are taken before it, in their order, as far as known."""
    more: int = 0
    """How many come behind these and still before it."""
    not_before: float = 0.0
    """Seconds until it may be taken at all."""


def forecast_waiting(kind: str, line: Line, history: Durations) -> Forecast:
    """Forecast start and end of a task that stands in line, in seconds from now."""
    samples = len(history.get(kind, ()))
    mine = _typical(kind, history) or _guess(history.get(kind, ()))
    if line.slots < 1:
        return Forecast(samples=samples)
    starts = _starts(line, history)
    if starts is None:
        return Forecast(samples=samples)
    starts = Span(*(max(line.not_before, at) for at in _levels(starts)))
    ends = None if mine is None else _add(starts, mine)
    return Forecast(starts=starts, ends=ends, samples=samples)


def later(one: Forecast, other: Forecast) -> Forecast:
    """Return the later of two forecasts, for a task that stands in two lines and must come through
    both.
    """
    if one.starts is None or other.starts is None:
        return Forecast(samples=one.samples)
    starts = _later(one.starts, other.starts)
    ends = None if one.ends is None or other.ends is None else _later(one.ends, other.ends)
    return Forecast(starts=starts, ends=ends, samples=one.samples)


def forecast_running(runs: Runs, history: Durations) -> Forecast:
    """Forecast the end of a running task, in seconds from now."""
    ends = _estimate_remaining(runs, history) or _guess_remaining(runs, history)
    return Forecast(ends=ends, samples=len(history.get(runs.kind, ())))


def late_after(durations: Sequence[float]) -> float | None:
    """Return after how many seconds a task is late of which others took so long: twice the longest;
    None if they are too few.
    """
    return max(durations) * _OVERDUE_FACTOR if len(durations) >= ENOUGH else None


def nth_start(free: Sequence[float], durations: Sequence[float], more: int, each: float) -> float:
    """Return when a task starts that stands behind these, and behind `more` that take `each`.

    `free` is when each slot is free.
    """
    slots = list(free)
    heapq.heapify(slots)
    for duration in durations:
        heapq.heapreplace(slots, slots[0] + duration)
    if more <= 0 or each <= 0:
        return min(slots)
    # By a moment t a slot that was free at f has begun floor((t - f) / each) + 1 of them: look for
    # the first t by which all of `more` and this one have begun.
    low, high = min(slots), min(slots) + each * more
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        starts = sum(math.floor((middle - at) / each) + 1 for at in slots if at <= middle)
        low, high = (low, middle) if starts > more else (middle, high)
    return high


def quartiles(durations: Sequence[float]) -> Span | None:
    """Between what half of them lie, and the median; None of nothing."""
    if not durations:
        return None
    ascending = sorted(durations)
    return Span(*(_quantile(ascending, part) for part in (0.25, 0.5, 0.75)))


def _quantile(durations: Sequence[float], part: float) -> float:
    place = part * (len(durations) - 1)
    below = math.floor(place)
    above = min(below + 1, len(durations) - 1)
    return durations[below] + (durations[above] - durations[below]) * (place - below)


def _typical(kind: str, history: Durations) -> Span | None:
    """Return the typical duration of its kind, or of all if there were none; None if they are too
    few.
    """
    return quartiles(_durations_of_kind(kind, history))


def _durations_of_kind(kind: str, history: Durations) -> Sequence[float]:
    own = history.get(kind, ())
    if not own:
        return _of_all(history)
    return own if len(own) >= ENOUGH else ()


def _of_all(history: Durations) -> Sequence[float]:
    found = [duration for each in history.values() for duration in each]
    return found if len(found) >= _ENOUGH_OTHERS else ()


def _guess(few: Sequence[float]) -> Span | None:
    """Guess a duration from a few of its kind; None from none."""
    if not few:
        return None
    middle = _quantile(sorted(few), 0.5)
    return Span(min(few) / _FEW_SAMPLES_FACTOR, middle, max(few) * _FEW_SAMPLES_FACTOR)


def _estimate_remaining(runs: Runs, history: Durations) -> Span | None:
    """Estimate how long a running task still takes, if enough is known of its kind."""
    if runs.reported is not None:
        return Span(*(runs.reported * part for part in _SPREAD_OF_REPORTED))
    known = _durations_of_kind(runs.kind, history)
    longer = [duration - runs.ran for duration in known if duration > runs.ran]
    if longer or not known:
        return quartiles(longer)
    return Span(0.0, runs.ran / 2, runs.ran)  # longer than any before: as long again at most


def _guess_remaining(runs: Runs, history: Durations) -> Span | None:
    """Guess how long it still takes from a few of its kind; None if it has run for longer than
    these.
    """
    whole = _guess(history.get(runs.kind, ()))
    if whole is None or whole.likely <= runs.ran:
        return None
    return Span(*(max(0.0, level - runs.ran) for level in _levels(whole)))


def _starts(line: Line, history: Durations) -> Span | None:
    running = [_estimate_remaining(each, history) for each in line.running]
    ahead = [_typical(kind, history) for kind in line.ahead]
    rest = quartiles(_of_all(history))
    crowded = len(line.running) + len(line.ahead) + line.more >= line.slots
    if crowded and (None in running or None in ahead or (line.more and rest is None)):
        return None  # others must end first, and nobody knows when
    found = []
    for level in range(3):
        busy = sorted(_levels(span)[level] for span in running if span is not None)
        # More may run than there are slots, when those became fewer: the first to end free none.
        free = [0.0] * max(0, line.slots - len(busy)) + busy[max(0, len(busy) - line.slots) :]
        before = [_levels(span)[level] for span in ahead if span is not None]
        each = 0.0 if rest is None else _levels(rest)[level]
        found.append(nth_start(free, before, line.more, each))
    return Span(*found)


def _levels(span: Span) -> tuple[float, float, float]:
    return span.low, span.likely, span.high


def _add(one: Span, other: Span) -> Span:
    return Span(*(a + b for a, b in zip(_levels(one), _levels(other), strict=True)))


def _later(one: Span, other: Span) -> Span:
    return Span(*map(max, _levels(one), _levels(other)))
