"""Connections that wait for the next one who needs one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from stayer.stores.sql.forking import mind_forks


class Closable(Protocol):
    """A connection of whatever database."""

    def close(self) -> None:
        """End it."""


C = TypeVar("C", bound=Closable)
_IDLE = 8
"""How many unused connections are kept."""
_inherited: list[Closable] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class ConnectionPool(Generic[C]):
    """Connections for many threads, and again after a fork. There is no upper limit to those in
    use: each thread has one at most.
    """

    def __init__(self, connect: Callable[[], C], is_good: Callable[[C], bool]) -> None:
        self._connect = connect
        self._is_good = is_good
        self._idle: list[C] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
        mind_forks(self)

    @contextmanager
    def lent(self) -> Iterator[C]:
        """A connection that nobody else uses meanwhile; closed if anything goes wrong."""
        connection = self.take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self.put(connection)

    def take(self) -> C:
        """One that nobody uses, if it is still good, or a new one."""
        while True:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect()
            if self._is_good(connection):
                return connection
            connection.close()

    def put(self, connection: C) -> None:
        """Keep it for the next one, unless there are enough."""
        with self._guard:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def after_fork(self) -> None:
        """A connection must be neither used nor closed by a child: leave it to the parent."""
        _inherited.extend(self._idle)
        self._idle = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    def __del__(self) -> None:
        if self._pid == os.getpid():
            for connection in self._idle:
                connection.close()
