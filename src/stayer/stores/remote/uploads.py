"""Logs and checkpoints on their way to a server, beside the beats: no beat waits for them.

They are kept in memory until the server has them. Should this process die before, the next one
reads them from the run directory again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import NamedTuple
from urllib.parse import quote

from stayer.core.errors import NotHeld, StayerError, StoreError, UnknownTask, UnknownWorker
from stayer.core.model import Report
from stayer.stores.remote.connection import Connection, path_of

logger = logging.getLogger(__name__)

MOST_BYTES = 64_000_000
"""How much may be on its way."""
_RETRY_S = (0.2, 5.0)
"""Between two attempts at a server that does not answer: the first, and the longest."""
_IDLE_S = 10.0
"""How long the thread waits for more before it ends."""


class _Upload(NamedTuple):
    key: tuple[str, int]
    method: str
    path: str
    query: dict[str, int]
    data: bytes


class Uploads:
    """What a worker has to say at length, sent in its order by one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: deque[_Upload] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, worker: str, report: Report, patience: float) -> bool:
        """Send log and checkpoint of a report; False if there is no room for it in time."""
        uploads = _uploads(worker, report)
        size = sum(len(each.data) for each in uploads)
        if not uploads:
            return True
        deadline = time.monotonic() + patience
        with self._changed:
            while self._bytes and self._bytes + size > MOST_BYTES:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    return False
            self._queue.extend(uploads)
            self._bytes += size
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, name="uploads", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def wait(self, keys: set[tuple[str, int]] | None, patience: float) -> bool:
        """Wait until nothing of these attempts (None: of any) is on its way; False if that takes
        too long.
        """
        deadline = time.monotonic() + patience
        with self._changed:
            while any(keys is None or each.key in keys for each in self._queue):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _send(self) -> None:
        pause = _RETRY_S[0]
        while True:
            with self._changed:
                if not self._queue and not self._changed.wait_for(
                    lambda: bool(self._queue), _IDLE_S
                ):
                    self._thread = None
                    return
                upload = self._queue[0]
            try:
                self._connection.send(upload.method, upload.path, upload.query, upload.data)
            except StoreError as error:
                logger.debug("sending %s again: %s", upload.path, error)
                time.sleep(pause)
                pause = min(2 * pause, _RETRY_S[1])
                continue
            except (NotHeld, UnknownTask, UnknownWorker):
                pass  # it is somebody else's by now: as with a beat, it is dropped
            except StayerError as error:
                logger.warning("the server refuses what task %s sent: %s", upload.key[0], error)
            except Exception:
                logger.exception("what task %s sent is dropped", upload.key[0])
            pause = _RETRY_S[0]
            with self._changed:
                self._queue.popleft()
                self._bytes -= len(upload.data)
                self._changed.notify_all()


def _uploads(worker: str, report: Report) -> list[_Upload]:
    key = report.id, report.attempt
    log = path_of("work", worker, "tasks", quote(report.id, safe=""), "log")
    found = [
        _Upload(key, "POST", log, {"attempt": report.attempt, "start": piece.start}, piece.data)
        for piece in report.log
    ]
    if report.checkpoint is not None:
        path = path_of("work", worker, "tasks", quote(report.id, safe=""), "checkpoint")
        found.append(_Upload(key, "PUT", path, {"attempt": report.attempt}, report.checkpoint))
    return found
