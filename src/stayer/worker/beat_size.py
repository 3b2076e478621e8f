"""How much goes with one beat: no more than a store takes in a moment, since the lease depends on
it.
"""

from __future__ import annotations

from stayer.core import codec
from stayer.core.insight import statistics
from stayer.core.model import Report

BEAT_LIMIT_BYTES = codec.CHECKPOINT_LIMIT
"""How much of logs, checkpoints and statistics a beat carries: as the largest checkpoint has."""


def weight(report: Report) -> int:
    """Return how many bytes of a beat it takes."""
    log = sum(len(piece.data) for piece in report.log)
    own = 0 if report.statistics is None else statistics.weight(report.statistics)
    return log + len(report.checkpoint or b"") + own
