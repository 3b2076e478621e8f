"""procrastinate: psycopg, eight tasks at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import procrastinate

from bench.peers.marks import leave

WORKER = ["-m", "bench.peers.for_procrastinate"]
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_STORE"]),
    import_paths=["bench.peers.for_procrastinate"],
)


@app.task(name="nothing")
async def nothing(number: int) -> int:
    return leave(number)


async def install() -> None:
    """Make its tables."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def submit_each(numbers: Iterator[int]) -> None:
    async with app.open_async():
        for number in numbers:
            await nothing.defer_async(number=number)


async def submit_bulk(numbers: Iterator[int]) -> None:
    async with app.open_async():
        await nothing.batch_defer_async(*({"number": number} for number in numbers))


async def _work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=8, install_signal_handlers=False)


if __name__ == "__main__":
    asyncio.run(_work())
