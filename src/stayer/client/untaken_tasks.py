"""What a listener gave away and nobody has begun yet: the code that took it may have lost it."""

from __future__ import annotations

import logging
import math
import time

from stayer.core.model import Task
from stayer.core.units import format_duration
from stayer.store import Store

logger = logging.getLogger("stayer")


class Taken:
    """Remembers what was taken when, until somebody begins it."""

    def __init__(self, store: Store, patience: float) -> None:
        """`patience`: after so many seconds it is time to ask what became of one."""
        self._store = store
        self._patience = patience
        self._since: dict[tuple[str, int], float] = {}
        self._next_look = time.monotonic() + patience

    def add(self, task: Task) -> None:
        """Note that it is given to whoever listens."""
        self._since[task.id, task.attempt] = time.monotonic()

    def forget(self, task: Task) -> None:
        """Somebody has begun it, or it is over."""
        self._since.pop((task.id, task.attempt), None)

    def until_due(self) -> float:
        """Tell in how many seconds to look for those that are forgotten."""
        return max(0.0, self._next_look - time.monotonic()) if self._since else math.inf

    def warn(self) -> None:
        """Name those that are still as they were when they were taken, each once. They are not
        taken back: another process may have them, and be about to begin.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._patience / 2
        due = [key for key, since in self._since.copy().items() if now - since >= self._patience]
        if not due:
            return
        for (id, attempt), task in zip(due, self._store.get([id for id, _ in due]), strict=True):
            if self._since.pop((id, attempt), None) is None or task is None:
                continue
            if (task.state, task.attempt) == ("reserved", attempt):
                logger.warning(
                    "task %s was taken %s ago, and nobody has begun it: no other gets it while "
                    "this process lives. Give it to `get_processor`, or back with `give_back`",
                    id, format_duration(self._patience),
                )  # fmt: skip
