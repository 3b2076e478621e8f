"""Run in the environment of a peer: `python -m bench.peers.submitting PEER each|bulk|pickup COUNT`.

Prints seconds: what all submissions took or, of `pickup`, from each submission to the first line of
its task.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.peers import marks

_PAUSE = 0.02
"""Lets the worker fall asleep before it is woken."""


def main() -> None:
    peer, how, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    module = importlib.import_module(f"bench.peers.for_{peer}")
    found: list[float] = []
    if how == "install":
        _install(getattr(module, "install", None))
    elif how == "pickup":
        _call(module.submit_each, _probes(count, found))
        found = found[1:]  # the first one finds nothing ready
    else:
        if how == "bulk" and not hasattr(module, "submit_bulk"):
            print("[]")
            return
        # Connected before the clock starts, as a program that submits often is.
        numbers = range(count)
        begin: list[float] = []
        _call(module.submit_each if how == "each" else module.submit_bulk, _timed(numbers, begin))
        found = [time.perf_counter() - begin[0]]
    print(json.dumps(found))


def _install(function: Any) -> None:
    made = None if function is None else function()
    if inspect.isawaitable(made):
        asyncio.run(_awaited(made))


async def _awaited(this: Any) -> None:
    await this


def _call(function: Any, numbers: Iterator[int]) -> None:
    if inspect.iscoroutinefunction(function):
        asyncio.run(function(numbers))
    else:
        function(numbers)


def _timed(numbers: range, begin: list[float]) -> Iterator[int]:
    begin.append(time.perf_counter())
    yield from numbers


def _probes(count: int, found: list[float]) -> Iterator[int]:
    """Numbers below zero, the next one when the task of the one before has begun."""
    for number in range(-1, -count - 2, -1):
        begin = time.monotonic()
        yield number
        while not marks.moment(number):
            time.sleep(0.0005)
        found.append(marks.moment(number) - begin)
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
