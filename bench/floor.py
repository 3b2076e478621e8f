"""The floor: the same rows written by bare sqlite3, with the same schema, pragmas and lock."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from stayer.core import ids
from stayer.core.model import STATES
from stayer.stores.sql.sqlite.database import _PRAGMAS, statements

SQL = statements()


class Floor:
    """Submits, reserves and completes with no records, no checks and no contract."""

    def __init__(self, path: Path) -> None:
        self._lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT)
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in filter(str.strip, _PRAGMAS.format(synchronous="normal").split(";")):
            self._db.execute(pragma)

    def submit(self, count: int) -> int:
        """One transaction."""
        drawn = names(count)
        self._begin()
        now = time.time()
        last = self._db.execute(SQL["submit.last"]).fetchone()[0]
        self._db.executemany(SQL["submit"], [self._row(name, now) for name in drawn])
        self._db.execute(SQL["submit.events"], (last,))
        self._count(pending=count)
        self._end()
        return count

    def drain(self, tasks: int, batch: int) -> int:
        """Reserve a batch and complete the one before, until so many are done."""
        held: list[Any] = []
        done = 0
        while done < tasks:
            self._begin()
            now = time.time()
            self._complete(held, now)
            done += len(held)
            held = self._reserve(batch, now)
            self._end()
        self._begin()
        self._complete(held, time.time())
        self._end()
        return done + len(held)

    def _reserve(self, batch: int, now: float) -> list[Any]:
        best = self._db.execute(SQL["reserve.next"], ("q", "", batch)).fetchall()
        seqs = json.dumps([seq for _, _, seq in best])
        self._db.execute(SQL["reserve"], (now, "w", "node", seqs))
        rows = self._db.execute(SQL["get.seqs"], (seqs,)).fetchall()
        self._db.execute(SQL["reserve.attempts"], (now, seqs))
        events = [(now, row[-1], row[0], "q", "reserved", row[9], "w", None) for row in rows]
        self._db.executemany(SQL["event"], events)
        self._count(pending=-len(rows), reserved=len(rows))
        return [(row[-1], row[0], row[9]) for row in rows]

    def _complete(self, held: list[Any], now: float) -> None:
        if not held:
            return
        self._db.executemany(
            "UPDATE stayer_tasks SET state = 'complete', updated = ?, returned_from = NULL, "
            "result = '1', error = NULL, orders = NULL, finished_at = ?, ending = 'done', "
            "worker = 'w' WHERE id = ? AND state = 'reserved' AND worker IS 'w' AND attempt = ? "
            "AND last_order = 0",
            [(now, now, name, attempt) for _, name, attempt in held],
        )
        events = [
            (now, seq, name, "q", "complete", attempt, "w", "done") for seq, name, attempt in held
        ]
        self._db.executemany(SQL["event"], events)
        ends = [(now, "done", None, seq, attempt) for seq, _, attempt in held]
        self._db.executemany(SQL["attempt.end"], ends)
        self._count(reserved=-len(held), complete=len(held))

    def _count(self, **moved: int) -> None:
        self._db.execute(SQL["count"], (*(moved.get(state, 0) for state in STATES), 1, "q"))

    def _row(self, name: str, now: float) -> tuple[Any, ...]:
        return (
            name, "q", None, None, None, None, '{"x":1}', "pending", 0, 0, "me", None, now, now,
            None, None, None, None, "alive", 0.0,
        )  # fmt: skip

    def _begin(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._db.execute("BEGIN IMMEDIATE")

    def _end(self) -> None:
        self._db.execute("COMMIT")
        fcntl.flock(self._lock, fcntl.LOCK_UN)


def names(count: int) -> list[str]:
    """Ids as a submit of so many draws them."""
    return ids.generate_many(count)
