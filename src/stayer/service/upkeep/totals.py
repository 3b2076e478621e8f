"""Counting what happens in a store, for metrics: servers do it, each a part, in passing.

What is counted is kept in the store, together with the number of the last event: whoever comes next
goes on from there, and of two that count the same events only one is heard.
"""

from __future__ import annotations

import threading
from typing import Protocol

from stayer.core.insight import totals as core
from stayer.core.insight.totals import Tally, Totals
from stayer.core.model import Event
from stayer.store import ReadStore, UpkeepStore

PAUSE_S = 10.0
"""Between two looks, if nobody asks: so a server that is asked finds little to do."""
_EVENTS_A_STEP = 2_000
_MOST_STEPS = 50
"""So much is counted at once; a server that was away for long goes on at its next look."""
_MOST_LOOKED_UP = 500
"""Of how many tasks a step the history is read."""


class CountingStore(ReadStore, UpkeepStore, Protocol):
    """What counting needs."""


class Counter:
    """Counts on from where the store was left."""

    def __init__(self, store: CountingStore) -> None:
        self._store = store
        self._one = threading.Lock()

    def count(self) -> Totals:
        """Count what has happened since the last time; all there is."""
        with self._one:  # several who ask at once would count the same
            for _ in range(_MOST_STEPS):
                totals, is_done = self._step()
                if is_done:
                    break
        return totals

    def _step(self) -> tuple[Totals, bool]:
        """Count some events; all there is, and whether none are left."""
        store = self._store
        kept = store.read_shared("totals")
        totals = None if kept is None else core.decode(kept)
        last = store.last_event()
        if totals is not None and totals.seen == last:
            return totals, True
        if totals is None:
            totals = core.begin(last, store.now())
        elif totals.seen > last:
            totals.seen = last  # the store has lost its newest events, or is an older copy
        elif events := store.watch(totals.seen, 0.0, _EVENTS_A_STEP):
            _add(store, totals, events)
        else:
            totals.seen = last  # those between are of tasks that are gone
        is_kept = store.put_shared("totals", core.encode(totals), kept)
        return totals, is_kept and totals.seen >= last  # if not, somebody else has counted them


def _add(store: CountingStore, totals: Totals, events: list[Event]) -> None:
    ids = list(dict.fromkeys(event.id for event in events if event.id))
    tasks = dict(zip(ids, store.get(ids), strict=True))
    tally = Tally(totals)
    left = _MOST_LOOKED_UP
    for event in events:
        task = tasks.get(event.id)
        wants_history, wants_attempts = (
            core.needs_history(event, task),
            core.needs_attempts(event, task),
        )
        left -= wants_history or wants_attempts
        tally.add(
            event,
            task,
            store.events(event.id) if wants_history and left >= 0 else (),
            store.attempts(event.id) if wants_attempts and left >= 0 else (),
        )
