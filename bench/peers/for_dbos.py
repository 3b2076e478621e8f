"""dbos: eight workflows at once; each is a row that is polled for, and its steps are recorded."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from dbos import DBOS, DBOSClient, DBOSConfig

from bench.peers.marks import leave

WORKER = ["-m", "bench.peers.for_dbos"]
_URL = os.environ["BENCH_STORE"].replace("postgresql:", "postgresql+psycopg:", 1)
_QUEUE, _AT_ONCE, _POLL = "bench", 8, 0.02


@DBOS.workflow(name="nothing")
def nothing(number: int) -> int:
    return leave(number)


def _launch() -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": _URL,
        "application_version": "1",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()


def install() -> None:
    """Make its tables."""
    _launch()
    DBOS.register_queue(_QUEUE, worker_concurrency=_AT_ONCE, polling_interval_sec=_POLL)
    DBOS.destroy()


def submit_each(numbers: Iterator[int]) -> None:
    client = DBOSClient(system_database_url=_URL)
    for number in numbers:
        client.enqueue(
            {"queue_name": _QUEUE, "workflow_name": "nothing", "app_version": "1"}, number
        )
    client.destroy()


if __name__ == "__main__":
    _launch()
    threading.Event().wait()
