"""What a worker was given and may not run: it goes back, and comes again less and less often."""

from __future__ import annotations

from stayer.core.lifecycle import Snooze
from stayer.core.model import Task

REFUSED = "refused by its worker"
"""How the note begins that it leaves in its history."""
_FIRST, _LONGEST = 1.0, 600.0
"""For how many seconds nobody takes it. Another worker that may run it should not wait for long;
one that may not, and is alone, should not be busy with it."""
_REMEMBERED = 10_000


class Refusals:
    """How often this worker has refused which task."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def is_new(self, task: Task) -> bool:
        """It was not refused here before, as far as is remembered."""
        return task.id not in self._times

    def snooze(self, task: Task, why: str) -> Snooze:
        """What happens to it: no attempt is counted for it."""
        times = self._times.pop(task.id, 0)
        self._times[task.id] = times + 1
        if len(self._times) > _REMEMBERED:
            del self._times[next(iter(self._times))]
        delay = min(_LONGEST, _FIRST * 2.0 ** min(times, 20))
        return Snooze(delay, f"{REFUSED}: {why}")
