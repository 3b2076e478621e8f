"""Gives a worker and its pool the clocks of a machine that a test can put to sleep.

Found by Python where a test puts this folder into PYTHONPATH: see `tests/keeper/sleeping.py`.
"""

import os
import sys
import time

_folder = os.environ.get("STAYER_TEST_CLOCKS")
_clock, _time = time.clock_gettime, time.time


def _read(name: str) -> float:
    try:
        with open(f"{_folder}/{name}") as file:
            return float(file.read())
    except FileNotFoundError:
        return 0.0


def _clock_gettime(clock: int) -> float:
    if clock == time.CLOCK_MONOTONIC:
        return _clock(clock)
    set_ahead = _read("wall") if clock == time.CLOCK_REALTIME else 0.0
    return _clock(clock) + _read("slept") + set_ahead


if _folder and "-m" in sys.orig_argv:
    time.clock_gettime = _clock_gettime
    time.time = lambda: _time() + _read("slept") + _read("wall")
    if "worker" in sys.orig_argv:
        from pathlib import Path

        from stayer.worker import nursery

        nursery._CODE = Path(_folder).with_name("keeper") / "__main__.py"
