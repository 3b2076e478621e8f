"""The store against the floor, and against its own size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench.kinds import Kind
from bench.measure import rates, say, say_ratio
from stayer.client.submit import with_parameters
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import Filter, Task
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store

BATCH = 50
BULK = 1000


def against_floor(kind: Kind) -> None:
    """The aims: single and bulk submit ≥ 0.5, reserve+commit in batches of 50 ≥ the kind's own."""
    print(f"{kind.name} store against the floor ({kind.floor_is})")
    with kind.fresh() as (store, _), kind.fresh() as (_, place):
        floor = kind.floor(place)
        singles = rates(
            {
                "stayer": lambda: sum(submit_some(store, 1) for _ in range(500)),
                "floor": lambda: sum(floor.submit(1) for _ in range(500)),
            }
        )
        say_ratio("submit one by one", singles, 0.5)
        bulk = rates(
            {
                "stayer": lambda: sum(submit_some(store, BULK) for _ in range(5)),
                "floor": lambda: sum(floor.submit(BULK) for _ in range(5)),
            }
        )
        say_ratio(f"submit {BULK} at a time", bulk, 0.5)
        drain = rates(
            {
                "stayer": lambda: complete_all(store, 3000, BATCH),
                "floor": lambda: floor.drain(3000, BATCH),
            }
        )
        say_ratio(f"reserve + commit, {BATCH} at a time", drain, kind.drain_aim)


def growth(kind: Kind, sizes: tuple[int, ...] = (0, 100_000, 1_000_000)) -> None:
    """The aim: the same cost at every size, within what the kind is asked for."""
    print(f"{kind.name} store by size (as many pending and as many finished tasks each)")
    with ExitStack() as stack:
        stores = []
        for size in sizes:
            store, place = stack.enter_context(kind.fresh())
            kind.fill(store, place, size)
            stores.append(_operations(store))
        costs = {what: _costs([store[what] for store in stores]) for what in stores[0]}
    aim = kind.growth_aim
    for what, series in costs.items():
        shown = " / ".join(f"{1e6 * cost:,.0f}" for cost in series)
        worst = max(series) / min(series)
        say(f"{what}: µs at {' / '.join(map(str, sizes))}", f"{shown}  {worst:.2f} ×",
            f"aim < {aim} ×", worst < aim)  # fmt: skip


def wake_up(kind: Kind) -> None:
    """From a commit in another process to a waiter's return: see tests for that it always comes."""
    from bench.wake import latencies

    print(f"{kind.name} store, waking up")
    with kind.fresh() as (store, _):
        found = sorted(latencies(store, 200))
    shown = f"{1000 * statistics.median(found):.2f} / {1000 * found[int(len(found) * 0.99)]:.2f} ms"
    say("wake-up of a waiter in another process: p50 / p99", shown, "aim: about 1 ms")


def _operations(store: Store) -> dict[str, Callable[[], object]]:
    return {
        "submit one": lambda: submit_some(store, 1),
        f"submit {BULK}": lambda: submit_some(store, BULK),
        f"reserve + commit {BATCH}": lambda: _turn(store),
        "ls, newest 50": lambda: store.find(Filter(), None, 50),
        "ls --state failed": lambda: store.find(Filter(states=("failed",)), None, 50),
        "ls -q q --state pending": lambda: store.find(
            Filter(queues=("q",), states=("pending",)), None, 50
        ),
        "queues": store.queues,
    }


def _costs(works: Sequence[Callable[[], object]]) -> list[float]:
    """The median cost of each; they take turns, so that noise hits all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(60):
        for work, taken in zip(works, times, strict=True):
            begin = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begin)
    return [statistics.median(taken) for taken in times]


def submit_some(store: Store, count: int) -> int:
    """As `submit_many` does it."""
    pattern = new_task(queue="q", owner="me")
    return len(store.submit(list(with_parameters(pattern, [{"x": 1}] * count, None))))


_held: dict[int, Sequence[Task]] = {}


def _turn(store: Store) -> int:
    changes = [decide(task, Done(1)) for task in _held.get(id(store), ())]
    if not store.peek("q", 1):
        submit_some(store, 20 * BATCH)
    _, _held[id(store)] = store.turn("w", changes, ["q"], BATCH, EVERYTHING)
    return len(changes)


def complete_all(store: Store, tasks: int, batch: int) -> int:
    held: Sequence[Task] = ()
    done = 0
    while done < tasks:
        changes = [decide(task, Done(1)) for task in held]
        _, held = store.turn("w", changes, ["q"], batch, EVERYTHING)
        done += len(changes)
    store.commit([decide(task, Done(1)) for task in held])
    return done + len(held)
