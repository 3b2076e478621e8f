"""Letting workers know that somebody looks at what they run, so that news come every second."""

from __future__ import annotations

import time
from collections.abc import Iterable

from stayer.core.model import RUNNING, Task
from stayer.store import ReadStore

_ATTEND_S = 15.0
"""How long one word to a worker counts."""
_RENEW_S = 5.0
"""How often it is said again while somebody looks."""


class Attention:
    """The attention of one who looks at this task or that, again and again."""

    def __init__(self, store: ReadStore) -> None:
        self._store = store
        self._until: dict[str, float] = {}

    def pay(self, tasks: Iterable[Task]) -> None:
        """Note that somebody looks at these now. Cheap: the store hears of it every few seconds."""
        now = time.monotonic()
        workers = {task.worker for task in tasks if task.worker and task.state in RUNNING}
        new = [worker for worker in workers if self._until.get(worker, 0.0) < now]
        if new:
            self._store.attend(new, _ATTEND_S)
            self._until.update(dict.fromkeys(new, now + _RENEW_S))
