"""A no-op for huey on SQLite: `huey_consumer bench.rivals.for_huey.huey`."""

from __future__ import annotations

import os

from huey import SqliteHuey

huey = SqliteHuey(filename=os.environ["BENCH_HUEY"])


@huey.task()  # type: ignore[untyped-decorator]
def nothing(number: int) -> int:
    return number
