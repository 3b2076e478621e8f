"""How much goes with one beat: no more than a store takes in a moment, since the lease depends on
it.
"""

from __future__ import annotations

from stayer.core import codec
from stayer.core.model import Report

A_BEAT = codec.CHECKPOINT_LIMIT
"""How many bytes of logs and checkpoints: as many as the largest that may be."""


def weight(report: Report) -> int:
    """What it takes of that."""
    return sum(len(piece.data) for piece in report.log) + len(report.checkpoint or b"")
