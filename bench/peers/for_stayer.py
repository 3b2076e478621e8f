"""Stayer, in threads: results, history and events are stored."""

from __future__ import annotations

import os
from collections.abc import Iterator

import stayer
from bench.peers.marks import leave

app = stayer.App()
WORKER = [
    "-m", "stayer", "worker", "--app", "bench.peers.for_stayer", "--threads", "8",
    "--state-dir", os.environ["BENCH_FOLDER"],
]  # fmt: skip


@app.task
def nothing(number: int) -> int:
    return leave(number)


def install() -> None:
    """Make its tables."""
    app.client.store.setup()


def submit_each(numbers: Iterator[int]) -> None:
    app.client.store.setup()  # connects
    for number in numbers:
        nothing.submit(number)


def submit_bulk(numbers: Iterator[int]) -> None:
    app.client.store.setup()
    nothing.submit_many({"number": number} for number in numbers)
