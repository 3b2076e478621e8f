"""The functions that the benchmarks have run in threads and in processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import stayer

app = stayer.App()


@app.task
def nothing(number: int) -> int:
    return number


@app.task
def first_line() -> float:
    return time.monotonic()


@app.task
def parent() -> str:
    """The name of the process that has started this one."""
    return Path(f"/proc/{os.getppid()}/comm").read_text().strip()
