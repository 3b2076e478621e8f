"""streaq on streams: results in Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator

from streaq import Worker

from bench.peers.marks import leave

WORKER = ["-m", "streaq", "run", "bench.peers.for_streaq:worker"]
worker = Worker(redis_url=os.environ["BENCH_REDIS"], concurrency=100)


@worker.task
async def nothing(number: int) -> int:
    return leave(number)


async def submit_each(numbers: Iterator[int]) -> None:
    async with worker:
        for number in numbers:
            await nothing.enqueue(number)


async def submit_bulk(numbers: Iterator[int]) -> None:
    async with worker:
        await worker.enqueue_many([nothing.enqueue(number) for number in numbers])
