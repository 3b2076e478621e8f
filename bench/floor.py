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
from stayer.core.model import STATES, NewTask
from stayer.stores.sql.rows import beginning_of, cells_in_common
from stayer.stores.sql.sqlite.database import _PRAGMAS
from stayer.stores.sql.sqlite.dialect import statements

SQL = statements()
_NEW = NewTask(id="", queue="q", owner="me")


class Floor:
    """Submits, reserves and completes with no records, no checks and no contract."""

    def __init__(self, path: Path) -> None:
        self._lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT)
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in filter(str.strip, _PRAGMAS.format(synchronous="normal").split(";")):
            self._db.execute(pragma)
        self._last: int = self._db.execute(SQL["last_event"]).fetchone()[0]

    def submit(self, count: int) -> int:
        """One transaction."""
        drawn = names(count)
        self._begin()
        now = time.time()
        first = self._number(count)
        tasks = json.dumps([(name, '{"x":1}') for name in drawn])
        self._db.execute(SQL["fast.submit"], (tasks, first, *self._common(now)))
        self._tell(first, drawn, now, "pending", 0, None, None)
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
        [(seqs,)] = self._db.execute(SQL["reserve.next.json"], ("q", "", now, batch)).fetchall()
        first = self._number(batch)
        line = f',{now!r},"reserved",', ',"w",null,null,null,"node"]\n'
        numbers = json.loads(seqs)  # they came together: one follows the other
        if numbers:
            stretch = numbers[0], numbers[-1]
            self._db.execute(
                SQL["fast.reserve_stretch"], (now, "w", "node", first, *line, *stretch)
            )
        first_seq = numbers[0] if numbers else 0
        [(read, _)] = self._db.execute(SQL["reserve.read"], (seqs, first_seq)).fetchall()
        rows = json.loads(read)
        if rows:
            self._tell(first, [row[1] for row in rows], now, "reserved", 1, "w", None)
        self._count(pending=-len(rows), reserved=len(rows))
        return [row[1] for row in rows]

    def _complete(self, held: list[Any], now: float) -> None:
        if not held:
            return
        first = self._number(len(held))
        line = f',{now!r},"complete",1,true,"done","done"]\n'
        results = json.dumps({name: f"{number:016d}1" for number, name in enumerate(held, first)})
        self._db.execute(SQL["commit.done"], (now, "w", line, "reserved", 1, 0, "q", results))
        self._tell(first, held, now, "complete", 1, "w", "done")
        self._count(reserved=-len(held), complete=len(held))

    def _number(self, count: int) -> int:
        """The first of so many."""
        self._last += count
        return self._last - count + 1

    def _tell(self, first: int, ids: list[str], now: float, event: str, *about: Any) -> None:
        row = (first + len(ids) - 1, now, json.dumps(ids), "q", event, *about)
        self._db.execute(SQL["event"], row)

    def _count(self, **moved: int) -> None:
        self._db.execute(SQL["count"], (*(moved.get(state, 0) for state in STATES), 1, "q"))

    def _common(self, now: float) -> tuple[Any, ...]:
        return None, *cells_in_common(_NEW, beginning_of(_NEW, now))

    def _begin(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._db.execute("BEGIN IMMEDIATE")

    def _end(self) -> None:
        self._db.execute("COMMIT")
        fcntl.flock(self._lock, fcntl.LOCK_UN)


def names(count: int) -> list[str]:
    """Ids as a submit of so many draws them."""
    return ids.generate_many(count)
