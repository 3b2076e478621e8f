"""Hearing of work and orders through a server: requests that it answers when there is something."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from stayer.core.errors import StayerError
from stayer.stores.remote.connection import ANSWER_TIMEOUT_S, Connection, Query, path_of

_WAIT_S = 25.0
"""How long one request waits: proxies end those that are silent for half a minute or more."""
_RETRY_S = 1.0


class RemoteWaiter:
    """Asks in a thread of its own, so that others can ring (see `Waiter`)."""

    def __init__(self, connection: Connection, worker: str, queues: Sequence[str]) -> None:
        """Ask once, so that nothing falls between; raises as any request does."""
        self._connection = connection.another()
        self._path = path_of("work", worker, "wait")
        self._queues = tuple(queues)
        self._changed = threading.Condition()
        self._rung = False
        self._closed = False
        self._position: str = self._once(None, 0.0)
        threading.Thread(target=self._listen, name=f"ear of {worker}", daemon=True).start()

    def wait(self, timeout: float | None) -> bool:
        with self._changed:
            rung = self._changed.wait_for(lambda: self._rung, timeout)
            self._rung = False
        return rung

    def ring(self) -> None:
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self._connection.interrupt()
        self.ring()

    def _once(self, since: str | None, seconds: float) -> str:
        query: Query = {"queue": self._queues, "since": since, "seconds": f"{seconds:.1f}"}
        answer = self._connection.ask("GET", self._path, query, patience=ANSWER_TIMEOUT_S + seconds)
        return str(answer["position"])

    def _listen(self) -> None:
        while not self._closed:
            try:
                position = self._once(self._position, _WAIT_S)
            except StayerError:  # also if no more may wait: it looks as often as that, then
                if not self._closed:
                    time.sleep(_RETRY_S)
                    self.ring()
                continue
            if position != self._position:
                self._position = position
                self.ring()
        self._connection.close()
