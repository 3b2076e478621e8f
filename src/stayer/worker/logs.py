"""Logs too long for the store: all of one stays on its node until its task is forgotten."""

from __future__ import annotations

import logging
import os
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

from stayer.store import LOG_HEAD, LOG_TAIL, Store
from stayer.worker import safe_files
from stayer.worker.attempt import HeldAttempt

logger = logging.getLogger("stayer.worker")

_KEPT_LIMIT_BYTES = 10_000_000_000
"""How much of all logs is kept; the oldest go first."""
_LOOKUP_BATCH = 500
_NAME_LIMIT = 200
"""How long the name of a file may be, without attempt and ending."""


class KeptLogs:
    """A folder of files named by task and attempt."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "logs"

    def keep(self, held: HeldAttempt) -> None:
        """Before its run directory goes: whatever the store has not got in full."""
        part = held.run.part
        try:
            found = part.stat("log")
            if found is None or found.st_size <= LOG_HEAD + LOG_TAIL:
                return
            self.folder.mkdir(mode=0o700, exist_ok=True)
            name = self._file_name(held.task.id)
            kept = self.folder / f"{name}.{held.task.attempt}.log"
            (part.folder / "log").replace(kept)
            if not part.is_theirs(os.lstat(kept)):  # swapped meanwhile, by another task of its user
                safe_files.clear(kept)
        except OSError as error:
            logger.warning("the log of task %s can't be kept here: %s", held.task.id, error)

    def _file_name(self, id: str) -> str:
        """Return the name of a task's files; one that no disk takes is a hash, with the id beside
        it.
        """
        name = quote(id, safe="")
        if len(name) <= _NAME_LIMIT:
            return name
        name = f"%{sha256(id.encode()).hexdigest()}"
        (self.folder / f"{name}.id").write_text(id)
        return name

    def remove_purged(self, store: Store) -> None:
        """Remove those whose tasks are no longer in the store, and the oldest of too many."""
        try:
            paths = sorted(self.folder.glob("*.log"), key=lambda path: os.lstat(path).st_mtime)
        except OSError:
            return
        named = {path: self._task_of(path) for path in paths}
        ids = list(dict.fromkeys(named.values()))
        gone: set[str] = set()
        for start in range(0, len(ids), _LOOKUP_BATCH):
            part = ids[start : start + _LOOKUP_BATCH]
            found = store.get(part)
            gone.update(id for id, task in zip(part, found, strict=True) if task is None)
        for path in [path for path in paths if named[path] in gone]:
            self._forget(path)
            paths.remove(path)
        self._forget_oldest(paths)

    def _forget_oldest(self, paths: list[Path]) -> None:
        sizes = {path: os.lstat(path).st_blocks * 512 for path in paths}
        total = sum(sizes.values())
        for path in paths:
            if total <= _KEPT_LIMIT_BYTES:
                return
            total -= sizes[path]
            self._forget(path)

    def _forget(self, path: Path) -> None:
        safe_files.clear(path)
        beside = self._id_of(path)
        if not any(self.folder.glob(f"{beside.stem}.*.log")):
            beside.unlink(missing_ok=True)

    def _id_of(self, path: Path) -> Path:
        return self.folder / f"{path.name.rsplit('.', 2)[0]}.id"

    def _task_of(self, path: Path) -> str:
        try:
            return self._id_of(path).read_text()
        except OSError:
            return unquote(path.name.rsplit(".", 2)[0])
