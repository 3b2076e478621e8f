"""The functions that the benchmarks have run in threads."""

from __future__ import annotations

import time

import stayer

app = stayer.App()


@app.task
def nothing(number: int) -> int:
    return number


@app.task
def first_line() -> float:
    return time.monotonic()
