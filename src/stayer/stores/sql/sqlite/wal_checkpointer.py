"""Carrying SQLite's log over into the file, beside the writers, who would wait for the disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress

_ROWS = 500
"""After so many changed rows it is worth while: there are some hundred pages in the log."""
_CHECKPOINT_PAUSE_S = 0.05
"""No more often than that: a page that is written again and again is carried over once."""
_IDLE = 5.0
"""A thread that nobody has wanted for so long goes: none stays behind with a store left open."""

_at_it = threading.Lock()
"""Held meanwhile. A fork waits for it: the child would inherit SQLite's locks as they are."""
os.register_at_fork(
    before=_at_it.acquire,
    after_in_parent=_at_it.release,
    after_in_child=_at_it.release,
)


class Carrier:
    """A thread that is there while much is written. SQLite's own way, in the writer's commit, is
    left for logs that grow all the same: only there can they begin anew.
    """

    def __init__(self, path: str, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._rows = 0
        self._wanted = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    def written(self, rows: int) -> None:
        """So many rows were committed."""
        self._rows += rows
        if self._rows < _ROWS:
            return
        self._rows = 0
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="carrier", daemon=True)
                with suppress(RuntimeError):  # no more threads can be had: SQLite sees to it
                    thread.start()
                    self._thread = thread

    def close(self) -> None:
        """Let the thread end, and its connection with it."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        with suppress(sqlite3.Error), closing(self._connect()) as connection:
            while self._is_wanted():
                with _at_it:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with self._changed:
            if not self._is_closed():
                self._thread = None

    def _is_wanted(self) -> bool:
        """Wait until it is, but not for ever."""
        with self._changed:
            self._changed.wait_for(self._is_closed, _CHECKPOINT_PAUSE_S)
            self._changed.wait_for(lambda: self._wanted or self._is_closed(), _IDLE)
            wanted, self._wanted = self._wanted and not self._is_closed(), False
            return wanted

    def _is_closed(self) -> bool:
        return self._thread is not threading.current_thread()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection
