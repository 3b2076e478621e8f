"""taskiq on streams: results in Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from bench.peers.marks import leave

WORKER = [
    "-m", "taskiq", "worker", "bench.peers.for_taskiq:broker", "--workers", "1",
    "--log-level", "ERROR", "--max-async-tasks", "100",
]  # fmt: skip
url = os.environ["BENCH_REDIS"]
broker = RedisStreamBroker(url=url).with_result_backend(RedisAsyncResultBackend(redis_url=url))


@broker.task
async def nothing(number: int) -> int:
    return leave(number)


async def submit_each(numbers: Iterator[int]) -> None:
    await broker.startup()
    for number in numbers:
        await nothing.kiq(number)
    await broker.shutdown()
