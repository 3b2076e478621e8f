"""rq without forking, which is its fastest way; results are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator

from redis import Redis
from rq import Queue

from bench.peers.marks import leave

WORKER = [
    "-m", "rq.cli", "worker", "--url", os.environ["BENCH_REDIS"], "--quiet",
    "--worker-class", "rq.SimpleWorker",
]  # fmt: skip
queue = Queue(connection=Redis.from_url(os.environ["BENCH_REDIS"]))


def nothing(number: int) -> int:
    return leave(number)


def submit_each(numbers: Iterator[int]) -> None:
    for number in numbers:
        queue.enqueue(nothing, number)


def submit_bulk(numbers: Iterator[int]) -> None:
    queue.enqueue_many([Queue.prepare_data(nothing, (number,)) for number in numbers])
