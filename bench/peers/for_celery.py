"""Celery: prefork, results in Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator

from celery import Celery

from bench.peers.marks import leave

WORKER = [
    "-m", "celery", "-A", "bench.peers.for_celery", "worker", "-c", "1", "-l", "ERROR",
    "--without-gossip", "--without-mingle", "-n", f"{os.urandom(4).hex()}@bench",
]  # fmt: skip
app = Celery(broker=os.environ["BENCH_REDIS"], backend=os.environ["BENCH_REDIS"])
app.conf.worker_prefetch_multiplier = 100


@app.task
def nothing(number: int) -> int:
    return leave(number)


def submit_each(numbers: Iterator[int]) -> None:
    for number in numbers:
        nothing.delay(number)
