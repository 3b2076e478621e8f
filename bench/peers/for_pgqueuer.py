"""pgqueuer: asyncpg, batches of 500; a job that is done is moved to its log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.marks import leave

WORKER = ["-m", "bench.peers.for_pgqueuer"]
_URL = os.environ["BENCH_STORE"]


async def _queries() -> Queries:
    return Queries(AsyncpgDriver(await asyncpg.connect(_URL)))


async def install() -> None:
    """Make its tables."""
    await (await _queries()).install()


async def submit_each(numbers: Iterator[int]) -> None:
    queries = await _queries()
    for number in numbers:
        await queries.enqueue("nothing", str(number).encode())


async def submit_bulk(numbers: Iterator[int]) -> None:
    queries = await _queries()
    payloads: list[bytes | None] = [str(number).encode() for number in numbers]
    for start in range(0, len(payloads), 1000):
        some = payloads[start : start + 1000]
        await queries.enqueue(["nothing"] * len(some), some, [0] * len(some))


async def _work() -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(_URL)))

    @queue.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        leave(int(job.payload or b"0"))

    await queue.run(batch_size=500, dequeue_timeout=timedelta(seconds=1))


if __name__ == "__main__":
    asyncio.run(_work())
