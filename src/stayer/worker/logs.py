"""Logs too long for the store: all of one stays on its node until its task is forgotten."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from urllib.parse import quote, unquote

from stayer.store import LOG_HEAD, LOG_TAIL, Store
from stayer.worker.held import Held

logger = logging.getLogger("stayer.worker")

_MOST = 10_000_000_000
"""How many bytes of them are kept in all; the oldest go first."""
_BATCH = 500


class KeptLogs:
    """A folder of files named by task and attempt."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "logs"

    def keep(self, held: Held) -> None:
        """Before its run directory goes: whatever the store has not got in full."""
        log = held.run.folder / "log"
        try:
            if log.stat().st_size <= LOG_HEAD + LOG_TAIL:
                return
            self.folder.mkdir(mode=0o700, exist_ok=True)
            log.replace(self.folder / f"{quote(held.task.id, safe='')}.{held.task.attempt}.log")
        except OSError as error:
            logger.warning("the log of task %s can't be kept here: %s", held.task.id, error)

    def forget_purged(self, store: Store) -> None:
        """Those whose tasks are no longer in the store, and the oldest of too many."""
        try:
            paths = sorted(self.folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        except OSError:
            return
        ids = list(dict.fromkeys(map(_task_of, paths)))
        gone: set[str] = set()
        for start in range(0, len(ids), _BATCH):
            part = ids[start : start + _BATCH]
            found = store.get(part)
            gone.update(id for id, task in zip(part, found, strict=True) if task is None)
        for path in [path for path in paths if _task_of(path) in gone]:
            path.unlink(missing_ok=True)
            paths.remove(path)
        self._forget_oldest(paths)

    def _forget_oldest(self, paths: list[Path]) -> None:
        sizes = {path: os.stat(path).st_blocks * 512 for path in paths}
        total = sum(sizes.values())
        for path in paths:
            if total <= _MOST:
                return
            total -= sizes[path]
            path.unlink(missing_ok=True)


def _task_of(path: Path) -> str:
    return unquote(path.name.rsplit(".", 2)[0])
