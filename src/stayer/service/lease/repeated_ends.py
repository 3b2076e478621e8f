"""Ends that were told to the store before: it has them, but could not say so, or not for certain.
They are told again, and refused then.
"""

from __future__ import annotations

from stayer.core.model import Change
from stayer.store import ReadStore


def is_committed(store: ReadStore, end: Change) -> bool:
    """The store has this end, of this very attempt by this very worker."""
    news = end.effect.attempt
    mine = (end.worker, end.attempt, None if news is None else news.ending)
    return mine in ((each.worker, each.attempt, each.ending) for each in store.attempts(end.id))
