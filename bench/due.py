"""What time brings, all at once: how long a reserve takes while very many tasks become due, and
what schedules cost where none is due.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from bench.kinds import Kind
from bench.measure import say
from bench.store_speed import submit_some
from stayer.core.model import NewTask
from stayer.core.schedules.model import Schedule
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store

DUE = 100_000
LOOKS = 1000
SCHEDULES = 1000

_PROMOTING = """
import sys
from stayer import clock
from stayer.stores import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while (following := clock.elapse(store)) is not None and following <= store.now():
    pass
"""


def due(kind: Kind) -> None:
    """The aim: a reserve waits no longer than for a few batches of what becomes due."""
    print(f"{kind.name} store, {DUE:,} tasks that become due at once")
    with kind.fresh() as (store, _):
        for _ in range(3):
            submit_some(store, 1000)
        idle = sorted(_taken(store) for _ in range(LOOKS))
        _schedule(store)
        busy, took = _while_promoting(store)
        _say("reserve one: p50 / p99 on an idle store", idle)
        _say(f"… while they become due ({DUE / took:,.0f}/s)", sorted(busy))
        _say_schedules(store)


def _schedule(store: Store) -> None:
    for start in range(0, DUE, 1000):
        store.submit(
            [
                NewTask(id=f"due-{number}", queue="later", delay=0.001, generated=True)
                for number in range(start, start + 1000)
            ]
        )


def _while_promoting(store: Store) -> tuple[list[float], float]:
    found: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-c", _PROMOTING, store.url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        begin = time.perf_counter()
        process.stdin.write(b"\n")
        process.stdin.close()
        while process.poll() is None:
            if len(found) % 500 == 499:
                submit_some(store, 1000)
            found.append(_taken(store))
            time.sleep(0.002)
        return found, time.perf_counter() - begin


def _taken(store: Store) -> float:
    begin = time.perf_counter()
    store.reserve("w", ["q"], 1, EVERYTHING)
    return time.perf_counter() - begin


def _say_schedules(store: Store) -> None:
    before = _cost(lambda: store.promote(200))
    far = time.time() + 1e7
    for number in range(SCHEDULES):
        task = NewTask(id="", queue="q")
        store.put_schedule(Schedule(name=f"s{number}", cron="0 0 1 1 *", task=task, next=far))
    after = _cost(lambda: store.promote(200))
    shown = f"{1e6 * before:,.0f} / {1e6 * after:,.0f} µs"
    say(f"a look at the clock: without / with {SCHEDULES:,} schedules", shown, "aim: the same")


def _cost(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(LOOKS):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _say(what: str, found: list[float]) -> None:
    p99 = found[int(len(found) * 0.99)]
    say(what, f"{1000 * statistics.median(found):.2f} / {1000 * p99:.2f} ms")
