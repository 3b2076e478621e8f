"""dramatiq: results in Redis, threads."""

from __future__ import annotations

import os
from collections.abc import Iterator

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.peers.marks import leave

WORKER = [
    "-m", "dramatiq", "bench.peers.for_dramatiq", "--processes", "1", "--threads", "8",
    "--skip-logging",
]  # fmt: skip
broker = RedisBroker(url=os.environ["BENCH_REDIS"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["BENCH_REDIS"])))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def nothing(number: int) -> int:
    return leave(number)


def submit_each(numbers: Iterator[int]) -> None:
    for number in numbers:
        nothing.send(number)
