"""Lets a fork wait until nobody writes.

SQLite keeps account of a process's locks on a file in its memory. A child that is forked while
another thread writes has that account as it was then, with a writer that never ends: it could not
write to the file for as long as it lives.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Gate:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writing: dict[int, int] = {}
        """How many transactions each thread is in the midst of."""

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let no other thread fork for the body's time, which has to be short."""
        me = threading.get_ident()
        with self._changed:
            self._writing[me] = self._writing.get(me, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._writing[me] -= 1
                if not self._writing[me]:
                    del self._writing[me]
                    self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait for the others; nobody begins until the fork is done."""
        me = threading.get_ident()
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._writing.keys() - {me})

    def after_in_parent(self) -> None:
        self._changed.release()

    def after_in_child(self) -> None:
        self._changed = threading.Condition()


GATE = _Gate()
os.register_at_fork(
    before=GATE.before_fork,
    after_in_parent=GATE.after_in_parent,
    after_in_child=GATE.after_in_child,
)
