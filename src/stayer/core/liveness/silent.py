"""Who has not been heard of for too long: a hint for people, no verdict."""

from __future__ import annotations

from stayer.core.liveness.judge import BEATS_IN_A_LEASE
from stayer.core.worker_model import Worker

_MARGIN = 5.0
"""What a busy machine may be late, in seconds."""


def silent_for(worker: Worker, now: float) -> float | None:
    """Return for how long it has been silent; None if it was heard of within two beats."""
    silence = max(0.0, now - worker.beat_at)
    if worker.state == "STALE" or silence > 2 * worker.lease / BEATS_IN_A_LEASE + _MARGIN:
        return silence
    return None


def stuck_for(worker: Worker, now: float) -> float | None:
    """Return for how long its threads have not answered, as it says itself; None if they do."""
    answered_at = None if worker.handles is None else worker.handles.answered_at
    return None if answered_at is None else max(0.0, now - answered_at)
