"""How it goes, and how it went: sums, rates, and what the queues did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from stayer.core import units
from stayer.core.errors import BadInput, StoreUnreachable
from stayer.core.filters import MOMENT
from stayer.core.insight import queue_stats
from stayer.core.insight.queue_stats import Figures
from stayer.core.model import JSON, STATES, Event
from stayer.core.units import rfc3339
from stayer.http.filters import PARTIAL, moment, part_of
from stayer.http.route import Answer, Call
from stayer.service.degraded.partial import workers_in
from stayer.store import Store

_RATE_EVENTS = 5000
"""How many of the newest events are looked at for the rates."""
_RATE_WINDOW_S = 300.0
_COUNTED = ("pending", "started", "complete", "failed", "cancelled")
_MOST_POINTS = 3000
"""How many steps one answer may have."""
PartialSums = Annotated[
    bool,
    Meta(description=f"{PARTIAL} `last_event` and `rates` are null if they are in what is away."),
]


class StatsQuery(Struct, frozen=True, kw_only=True):
    """Whether to look back, and how closely."""

    since: Annotated[str, Meta(description=f"What the queues did since: {MOMENT}.")] | None = None
    until: Annotated[str, Meta(description="Up to then. Default: now.")] | None = None
    step: Annotated[str, Meta(description="In steps of so many minutes, hours or days.")] = "5m"
    queue: Annotated[tuple[str, ...], Meta(description="Of this queue. Repeat it for more.")] = ()
    each: Annotated[bool, Meta(description="Of every queue by itself; else of all together.")] = (
        False
    )
    partial: PartialSums = False


def stats(call: Call) -> Answer:
    """Answer with sums over queues and workers, and what happened in the last minutes."""
    store, query = call.store, call.query
    now = store.now()
    queues, away = part_of(store, (), store.queues, query.partial)
    workers, _ = part_of(store, (), partial(workers_in, store), query.partial)
    history: JSON = None
    if query.since is not None:
        history = _history(store, query, now)
    able = [worker for worker in workers if worker.state != "STALE"]
    oldest = min((queue.oldest for queue in queues if queue.oldest is not None), default=None)
    states = Counter(worker.state for worker in workers)
    shown: dict[str, JSON] = {
        "now": rfc3339(now),
        "tasks": {state: sum(queue.counts.get(state, 0) for queue in queues) for state in STATES},
        "queues": len(queues),
        "paused_queues": sum(queue.paused for queue in queues),
        "oldest": None if oldest is None else rfc3339(oldest),
        "workers": {state: states[state] for state in ("IDLE", "PROCESSING", "DRAINING", "STALE")},
        "slots": sum(worker.slots for worker in able),
        "running": sum(worker.running for worker in able),
        **_recent_events(store, now, query.partial),
        "history": history,
        **away,
    }
    return Answer(shown)


def _recent_events(store: Store, now: float, partial: bool) -> dict[str, JSON]:
    """What happened lately. Events may be in a part of the store that is away."""
    try:
        last = store.last_event()
        rates = _rates(store.watch(max(0, last - _RATE_EVENTS), 0.0, _RATE_EVENTS), now)
    except StoreUnreachable:
        if not partial:
            raise
        return {"last_event": None, "rates": None}
    return {"last_event": last, "rates": rates}


def _history(store: Store, query: StatsQuery, now: float) -> JSON:
    """Return what the queues did, in steps."""
    assert query.since is not None
    since = moment(store, "since", query.since)
    until = now if query.until is None else moment(store, "until", query.until)
    step = _step(query.step)
    if (until - since) / step > _MOST_POINTS:
        raise BadInput(
            f"that is over {_MOST_POINTS:,} points a queue: ask for longer steps, or less"
        )
    level = queue_stats.level(step, now - since)
    together = not query.queue and not query.each

    def read(queues: Sequence[str]) -> list[Figures]:
        return store.figures(since, until, level, None if together and not queues else queues)

    found, _ = part_of(store, query.queue, read, query.partial)
    if together:  # also if it was read queue by queue
        found = queue_stats.total(found)
    points: list[JSON] = [queue_stats.record(each) for each in queue_stats.together(found, step)]
    return {"step": step, "points": points}


def _step(text: str) -> float:
    try:
        step = units.duration(text)
    except BadInput as error:
        raise BadInput(f"step: {error}") from None
    if step < min(queue_stats.KEPT) or step % min(queue_stats.KEPT):
        raise BadInput("step: write a number of whole minutes, such as 5m or 1h")
    return step


def _rates(events: list[Event], now: float) -> JSON:
    """Count how often a minute tasks came into a state lately."""
    # If there were more events than were looked at, the window is the part of it that was.
    full = len(events) >= _RATE_EVENTS
    began_at = max(now - _RATE_WINDOW_S, events[0].at if full else now - _RATE_WINDOW_S)
    window = max(1.0, now - began_at)
    recent = Counter(event.event for event in events if event.at >= began_at)
    per_minute = {state: round(recent[state] * 60 / window, 3) for state in _COUNTED}
    return {"window": round(window, 3), "per_minute": dict[str, JSON](per_minute)}
