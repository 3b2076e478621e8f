"""huey: one thread, which is its fastest way; results are kept until somebody reads them. On Redis,
or, where a store is named, on PostgreSQL, which it polls.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from huey import RedisHuey

from bench.peers.marks import leave

WORKER = ["-m", "huey.bin.huey_consumer", "bench.peers.for_huey.huey", "-w", "1", "-q"]
if "BENCH_STORE" in os.environ:
    from huey.contrib.sql_huey import SqlHuey
    from peewee import PostgresqlDatabase

    _where = urlsplit(os.environ["BENCH_STORE"])
    _options = {name: values[0] for name, values in parse_qs(_where.query).items()}
    huey = SqlHuey(database=PostgresqlDatabase(_where.path[1:], **_options))
    WORKER += ["-d", "0.002", "-m", "0.002"]  # it polls
else:
    huey = RedisHuey(url=os.environ["BENCH_REDIS"])


@huey.task()
def nothing(number: int) -> int:
    return leave(number)


def install() -> None:
    """Its tables are made by whoever comes first."""


def submit_each(numbers: Iterator[int]) -> None:
    for number in numbers:
        nothing(number)
