"""What attempts have reported of themselves: which one is meant, and what to show of it."""

from __future__ import annotations

from stayer.core.model import Statistics, Task
from stayer.store import Store

_ATTEMPTS_BACK = 5
"""A task that is just tried again has nothing to show yet: so many earlier tries are looked at."""


def find_statistics(store: Store, task: Task, attempt: int | None = None) -> tuple[int, Statistics]:
    """Return what this attempt has reported, or the last one that reported something; and which one
    that is.
    """
    if attempt is not None:
        return attempt, store.statistics(task.id, attempt) or Statistics()
    for number in range(task.attempt, max(0, task.attempt - _ATTEMPTS_BACK), -1):
        found = store.statistics(task.id, number)
        if found is not None:
            return number, found
    return task.attempt, Statistics()
