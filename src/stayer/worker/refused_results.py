"""Results that the store would not take: they stay on their node for a while."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from stayer.store import Store
from stayer.worker.run_removal import discard, find_refused_result, strip, task_of

REFUSED_RESULT_KEPT_S = 30 * 86400.0
"""How long a refused result stays, if neither a purge nor a later success ends it."""
_LOOKUP_BATCH = 500


class RefusedResult(Struct, frozen=True):
    """One that is kept here."""

    task: str | None
    """None if it can't be told any more."""
    path: Path
    size: int
    age: float


def find_refused_results(state: Path) -> list[RefusedResult]:
    """Find all that are in a state directory, whose attempts have been forgotten.
    Changes nothing.
    """
    try:
        folders = sorted((state / "run").glob("[!.]*"))
    except OSError:
        return []
    found = []
    for folder in folders:
        path = None if (folder / "task.json").exists() else find_refused_result(folder)
        if path is not None:
            seen = os.lstat(path)
            age = time.time() - seen.st_mtime
            found.append(RefusedResult(task_of(folder), path, seen.st_size, age))
    return found


def remove_outdated(store: Store, state: Path) -> None:
    """Remove those whose tasks the store has forgotten, or that came to a good end after all, and
    those that are too old.
    """
    kept = find_refused_results(state)
    ids = list(dict.fromkeys(each.task for each in kept if each.task is not None))
    over: set[str | None] = set()
    for start in range(0, len(ids), _LOOKUP_BATCH):
        part = ids[start : start + _LOOKUP_BATCH]
        for id, task in zip(part, store.get(part), strict=True):
            if task is None or task.state == "complete":
                over.add(id)
    for each in kept:
        name = each.path.relative_to(state / "run").parts[0]
        folder = state / "run" / name
        if each.task in over or each.age > REFUSED_RESULT_KEPT_S:
            discard(folder)
        else:
            strip(folder)  # should its removal have been cut short
