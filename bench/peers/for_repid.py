"""repid on streams: it has no results to keep."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from repid import Repid, Router
from repid.connections import RedisServer

from bench.peers.marks import leave

WORKER = ["-m", "bench.peers.for_repid"]
app = Repid()
app.servers.register_server("default", RedisServer(os.environ["BENCH_REDIS"]), is_default=True)
router = Router()


@router.actor
async def nothing(number: int) -> int:
    return leave(number)


app.include_router(router)


async def submit_each(numbers: Iterator[int]) -> None:
    async with app.servers.default.connection():
        for number in numbers:
            await app.send_message_json(
                channel="default", payload={"number": number}, headers={"topic": "nothing"}
            )


async def _work() -> None:
    async with app.servers.default.connection():
        await app.run_worker()


if __name__ == "__main__":
    asyncio.run(_work())
