"""huey: one thread, which is its fastest way; results are kept until somebody reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from huey import RedisHuey

from bench.peers.marks import leave

WORKER = ["-m", "huey.bin.huey_consumer", "bench.peers.for_huey.huey", "-w", "1", "-q"]
huey = RedisHuey(url=os.environ["BENCH_REDIS"])


@huey.task()
def nothing(number: int) -> int:
    return leave(number)


def submit_each(numbers: Iterator[int]) -> None:
    for number in numbers:
        nothing(number)
