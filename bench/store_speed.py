"""The store against the floor, and against its own size."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from bench.floor import Floor, names
from bench.measure import rates, say, say_ratio
from stayer.core import ids
from stayer.core.lifecycle import Done, decide
from stayer.core.model import EVERYTHING, Filter, NewTask, Task, Worker
from stayer.core.submission import new_task
from stayer.store import Store
from stayer.stores import open_store

BATCH = 50
BULK = 1000


@contextmanager
def fresh_store() -> Iterator[tuple[Store, Path]]:
    """An empty store with one registered worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stayer.db")
        store = open_store(f"sqlite:///{path}")
        store.setup()
        store.beat(Worker(id="w", node="node", pid=1), 1, "nonce", ())
        yield store, path
        store.close()


def against_floor() -> None:
    """The aims: single and bulk submit ≥ 0.5, reserve+commit in batches of 50 ≥ 0.4."""
    print("SQLite store against the floor (bare sqlite3, same rows, schema, pragmas, lock)")
    with fresh_store() as (store, _), fresh_store() as (_, floor_path):
        floor = Floor(floor_path)
        singles = rates(
            {
                "stayer": lambda: sum(_submit(store, 1) for _ in range(500)),
                "floor": lambda: sum(floor.submit(names(1)) for _ in range(500)),
            }
        )
        say_ratio("submit one by one", singles, 0.5)
        bulk = rates(
            {
                "stayer": lambda: sum(_submit(store, BULK) for _ in range(5)),
                "floor": lambda: sum(floor.submit(names(BULK)) for _ in range(5)),
            }
        )
        say_ratio(f"submit {BULK} at a time", bulk, 0.5)
        drain = rates(
            {
                "stayer": lambda: _drain(store, 3000, BATCH),
                "floor": lambda: floor.drain(3000, BATCH),
            }
        )
        say_ratio(f"reserve + commit, {BATCH} at a time", drain, 0.4)


def growth(sizes: tuple[int, ...] = (0, 100_000, 1_000_000)) -> None:
    """The aim: the same cost at every size, within 1.5 ×."""
    print("SQLite store by size (as many pending and as many finished tasks each)")
    with ExitStack() as stack:
        stores = []
        for size in sizes:
            store, path = stack.enter_context(fresh_store())
            _fill(path, size)
            stores.append(_operations(store))
        costs = {what: _costs([store[what] for store in stores]) for what in stores[0]}
    for what, series in costs.items():
        shown = " / ".join(f"{1e6 * cost:,.0f}" for cost in series)
        worst = max(series) / min(series)
        say(f"{what}: µs at {' / '.join(map(str, sizes))}", f"{shown}  {worst:.2f} ×",
            "aim < 1.5 ×", worst < 1.5)  # fmt: skip


def wake_up() -> None:
    """From a commit in another process to a waiter's return: see tests for that it always comes."""
    from bench.wake import latencies

    found = sorted(latencies(200))
    shown = f"{1000 * statistics.median(found):.2f} / {1000 * found[int(len(found) * 0.99)]:.2f} ms"
    say("wake-up of a waiter in another process: p50 / p99", shown, "aim: about 1 ms")


def _operations(store: Store) -> dict[str, Callable[[], object]]:
    return {
        "submit one": lambda: _submit(store, 1),
        f"submit {BULK}": lambda: _submit(store, BULK),
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


def _new(id: str) -> NewTask:
    task = new_task(queue="q", parameters={"x": 1}, owner="me", id=id)
    return msgspec.structs.replace(task, generated=True)


def _submit(store: Store, count: int) -> int:
    return len(store.submit([_new(id) for id in ids.generate_many(count)]))


_held: dict[int, list[Task]] = {}


def _turn(store: Store) -> int:
    changes = [decide(task, Done(1)) for task in _held.get(id(store), ())]
    if not store.peek("q", 1):
        _submit(store, 20 * BATCH)
    _, _held[id(store)] = store.turn("w", changes, ["q"], BATCH, EVERYTHING)
    return len(changes)


def _drain(store: Store, tasks: int, batch: int) -> int:
    held: list[Task] = []
    done = 0
    while done < tasks:
        changes = [decide(task, Done(1)) for task in held]
        _, held = store.turn("w", changes, ["q"], batch, EVERYTHING)
        done += len(changes)
    store.commit([decide(task, Done(1)) for task in held])
    return done + len(held)


def _fill(path: Path, size: int) -> None:
    """So many pending and so many finished tasks, written by SQL alone."""
    import sqlite3

    if not size:
        return
    with sqlite3.connect(path) as db:
        for state, finished in (("pending", "NULL"), ("complete", "1.7e9 + n")):
            db.execute(
                "INSERT INTO stayer_tasks (id, queue, parameters, state, created, updated, "
                "finished_at, owner) WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL "
                f"SELECT n + 1 FROM numbers WHERE n < {size}) SELECT lower(hex(randomblob(8))), "
                f"'q', '{{\"x\":1}}', '{state}', 1.7e9 + n, 1.7e9 + n, {finished}, 'me' "
                "FROM numbers"
            )
            db.execute(
                "INSERT INTO stayer_events (at, task, id, queue, event) SELECT created, seq, id, "
                "queue, state FROM stayer_tasks WHERE state = ?", (state,),
            )  # fmt: skip
        db.execute(
            "INSERT INTO stayer_queues (name, pending, complete) VALUES ('q', ?, ?)", (size, size)
        )
    db.close()
