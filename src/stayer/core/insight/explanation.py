"""What is said about a task that does not get on: reasons, and when it will."""

from __future__ import annotations

from msgspec import Struct

from stayer.core.model import JSON, State
from stayer.core.units import instant, rfc3339


class Reason(Struct, frozen=True):
    """One thing that keeps a task where it is, or says what it does."""

    reason: str
    """A word for programs, such as `queue-paused`."""
    text: str
    """A sentence for people; where something can be done about it, it says what."""


class Span(Struct, frozen=True):
    """Something that is not known exactly: half of the time it lies between `low` and `high`."""

    low: float
    likely: float
    high: float

    def after(self, other: float) -> Span:
        """Return the forecast later by so much."""
        return Span(self.low + other, self.likely + other, self.high + other)


class Forecast(Struct, frozen=True, kw_only=True):
    """When a task will start and end, as far as those before it tell; None: nobody knows."""

    starts: Span | None = None
    ends: Span | None = None
    samples: int = 0
    """How many finished tasks of its kind this rests on; 0: on others of the queue."""


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a task is where it is. The first reason is the one that counts most."""

    id: str
    state: State
    reasons: tuple[Reason, ...]
    ahead: int | None = None
    """How many tasks of its queue are taken before it, while it is pending."""
    forecast: Forecast | None = None


def record(explanation: Explanation) -> dict[str, JSON]:
    """Return it as JSON."""
    forecast = explanation.forecast
    return {
        "id": explanation.id,
        "state": explanation.state,
        "reasons": [{"reason": each.reason, "text": each.text} for each in explanation.reasons],
        "ahead": explanation.ahead,
        "forecast": None
        if forecast is None
        else {
            "starts": _span_json(forecast.starts),
            "ends": _span_json(forecast.ends),
            "samples": forecast.samples,
        },
    }


def _span_json(span: Span | None) -> JSON:
    if span is None:
        return None
    return {name: rfc3339(getattr(span, name)) for name in Span.__struct_fields__}


def times_read(shown: dict[str, JSON] | None) -> dict[str, JSON] | None:
    """Return a forecast's JSON with its moments as numbers: the reverse of `record`."""
    if shown is None:
        return None
    return {
        name: _read(value) if isinstance(value, dict) else value for name, value in shown.items()
    }


def _read(span: dict[str, JSON]) -> JSON:
    return {name: instant(str(moment)) for name, moment in span.items()}
