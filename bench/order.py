"""What order costs: many programs, many keys, and standing behind a key that is full."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.kinds import Kind
from bench.measure import say
from stayer.core import ids
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import NewTask
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store

ROUNDS = 300
BULK = 1000


def lines(kind: Kind) -> None:
    """The aims: mild growth with the keys that wait, none with the tasks behind a full key."""
    print(f"{kind.name} store, limits of keys: µs to reserve one task and end it")
    with ExitStack() as stack:

        def made(key_limit: int | None) -> Store:
            store, _ = stack.enter_context(kind.fresh())
            store.set_queue("q", key_limit=key_limit)
            return store

        plain, limited, many, flooded, both = made(None), *(made(1) for _ in range(4))
        _submit(plain, 2 * BULK, lambda number: "k")
        _submit(limited, 2 * BULK, lambda number: "k")
        _submit(many, 2 * BULK, lambda number: f"k{number % 1000}")
        for store in (flooded, both):
            _submit(store, 1, lambda number: "full")
            store.reserve("w", ["q"], 1, EVERYTHING)
            _submit(store, 100_000, lambda number: "full")
        _submit(flooded, 2 * BULK, lambda number: "k")
        _submit(both, 2 * BULK, lambda number: f"k{number % 1000}")
        costs = _costs([plain, limited, many, flooded, both])
    names = (
        "no limit", "one key", "1,000 keys", "one key, behind 100,000 tasks of a full one",
        "1,000 keys, behind 100,000 tasks of a full one",
    )  # fmt: skip
    for name, cost in zip(names, costs, strict=True):
        growth = cost / costs[1]
        # SQLite looks at every line where those that stand first are of full keys.
        aim = 50.0 if name == names[-1] else 2.0
        say(name, f"{1e6 * cost:,.0f}  {growth:.2f} ×", f"aim < {aim} ×", growth < aim)


def programs(kind: Kind) -> None:
    """The aim: a program for every task costs little more than one for all."""
    print(f"{kind.name} store, different programs pending: µs to reserve one task and end it")
    numbers = (1, 30, 1_000, 50_000)
    with ExitStack() as stack:
        stores = [stack.enter_context(kind.fresh())[0] for _ in numbers]
        for number, store in zip(numbers, stores, strict=True):
            _fill(store, max(number, BULK), _program_of(number))
        costs = _costs(stores)
    for number, cost in zip(numbers, costs, strict=True):
        growth = cost / costs[0]
        say(f"{number:,}", f"{1e6 * cost:,.0f}  {growth:.2f} ×", "aim < 3 ×", growth < 3)


def _program_of(number: int) -> Callable[[int], dict[str, Any]]:
    return lambda each: {"command": (f"{each % number}",)}


def _submit(store: Store, count: int, key: Callable[[int], str]) -> None:
    _fill(store, count, lambda number: {"key": key(number)})


def _fill(store: Store, count: int, about: Callable[[int], dict[str, Any]]) -> None:
    for start in range(0, count, BULK):
        names = ids.generate_many(min(BULK, count - start))
        store.submit(
            [
                NewTask(id=id, queue="q", generated=True, **about(start + number))
                for number, id in enumerate(names)
            ]
        )


def _costs(stores: list[Store]) -> list[float]:
    """The median cost of each; they take turns, so that noise hits all of them."""
    times: list[list[float]] = [[] for _ in stores]
    for _ in range(ROUNDS):
        for store, taken in zip(stores, times, strict=True):
            begin = time.perf_counter()
            [task] = store.reserve("w", ["q"], 1, EVERYTHING)
            store.commit([decide(task, Done())])
            taken.append(time.perf_counter() - begin)
    return [statistics.median(taken) for taken in times]
