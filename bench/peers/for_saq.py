"""saq: results are kept with the job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from saq import Queue

from bench.peers.marks import leave

WORKER = ["-m", "saq", "bench.peers.for_saq.settings", "--quiet"]
queue = Queue.from_url(os.environ["BENCH_REDIS"])


async def nothing(context: Any, *, number: int) -> int:
    return leave(number)


settings = {"queue": queue, "functions": [nothing], "concurrency": 100}


async def submit_each(numbers: Iterator[int]) -> None:
    await queue.connect()
    for number in numbers:
        await queue.enqueue("nothing", number=number)
