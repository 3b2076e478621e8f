"""arq, tuned: many jobs at once, and it looks often."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

from bench.peers.marks import leave

WORKER = ["-m", "arq", "bench.peers.for_arq.WorkerSettings"]
_redis = RedisSettings.from_dsn(os.environ["BENCH_REDIS"])


async def nothing(context: Any, number: int) -> int:
    return leave(number)


class WorkerSettings:
    """As arq wants them."""

    functions = (nothing,)
    redis_settings = _redis
    max_jobs = 100
    poll_delay = 0.01


async def submit_each(numbers: Iterator[int]) -> None:
    pool = await create_pool(_redis)
    for number in numbers:
        await pool.enqueue_job("nothing", number)
