"""How much goes with one beat: no more than a store takes in a moment, since the lease depends on
it.
"""

from __future__ import annotations

from stayer.core import codec
from stayer.core.model import Report

BEAT_LIMIT_BYTES = codec.CHECKPOINT_LIMIT
"""How much of logs and checkpoints a beat carries: as much as the largest checkpoint."""


def weight(report: Report) -> int:
    """Return how many bytes of a beat it takes."""
    return sum(len(piece.data) for piece in report.log) + len(report.checkpoint or b"")
