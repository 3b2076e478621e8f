"""The exit codes of `stayer` that its errors don't bring along (`StayerError.exit_code`)."""

from __future__ import annotations

COMPLETE, FAILED, CANCELLED = 0, 1, 3
BAD_INPUT = 2
STORE_UNREACHABLE = 4
DRAINED = 5
"""A worker was told to finish what it had: it is not to be started again."""
TIMED_OUT = 124
KILLED = 128
"""Plus the number of the signal, as shells have it."""
INTERRUPTED = 130
BROKEN_PIPE = 141

BY_FINAL_STATE = {"complete": COMPLETE, "failed": FAILED, "cancelled": CANCELLED}

_BEST_TO_WORST = (COMPLETE, CANCELLED, FAILED, TIMED_OUT, BAD_INPUT, STORE_UNREACHABLE)


def worst(one: int, other: int) -> int:
    """Return the exit code that counts if both things happened."""
    return max(one, other, key=_BEST_TO_WORST.index)
