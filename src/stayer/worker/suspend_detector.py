"""Noticing that this machine was not there for a while: suspended, or paused from outside."""

from __future__ import annotations

from stayer.core.units import format_duration
from stayer.keeper.kernel import slept, wall

_SHORTEST_SUSPEND_S = 1.0
"""A shorter suspend is not worth a word."""
_CLOCK_JUMP_S = 5.0
"""A smaller jump of the wall clock is not worth a word."""


class SuspendDetector:
    """Looked at often; tells of each once."""

    def __init__(self) -> None:
        self._slept, self._wall = slept(), wall()

    def describe_suspend(self, lease: float) -> str | None:
        """Say what has happened since the last look. `lease`: its length; keepers want to be told
        that a task is still ours when the clock jumps by a twelfth of it, or 5 seconds.
        """
        asleep, ahead = slept() - self._slept, wall() - self._wall
        self._slept, self._wall = slept(), wall()
        if asleep > _SHORTEST_SUSPEND_S:
            return f"this machine slept for {format_duration(asleep)}"
        if ahead > min(_CLOCK_JUMP_S, lease / 12):
            step = format_duration(ahead)
            return f"the clock jumped ahead by {step}, as after a pause of this machine"
        return None
