"""Flows: one task, many after it, one after all of these."""

from __future__ import annotations

import time

from bench.kinds import Kind
from bench.measure import say
from stayer.core.flows.model import NewFlow
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import NewTask
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.store import Store

WIDTHS = (100, 10_000)
SINGLES = 90


def flows(kind: Kind) -> None:
    """The aims: 10,000 are submitted in seconds, and the end of one of them costs what the end of
    one of 100 does.
    """
    print(f"{kind.name} store: flows of one task, many after it, and one after all of them")
    costs = []
    for width in WIDTHS:
        with kind.fresh() as (store, _):
            store.beat(Worker(id="flower", node="n", pid=1, queues=("f",)), 1, "1", ())
            costs.append(_play(store, width))
    say(
        f"the end of one of {WIDTHS[1]:,} against one of {WIDTHS[0]:,}",
        f"{costs[1] / costs[0]:.2f}",
    )


def _play(store: Store, width: int) -> float:
    """Run a flow of this width; how long the end of one of its middle tasks takes."""
    many = [f"f.m.{number}" for number in range(width)]
    tasks = [
        NewTask(id="f.a", queue="f", flow="f", part="a"),
        *(NewTask(id=id, queue="f", flow="f", part="m", after=("f.a",)) for id in many),
        NewTask(id="f.z", queue="f", flow="f", part="z", after=tuple(many)),
    ]
    begun = time.perf_counter()
    store.submit_flow(NewFlow(id="f", name="f"), tasks)
    say(f"submit, {width:,} wide", f"{1000 * (time.perf_counter() - begun):,.0f} ms")
    begun = time.perf_counter()
    _finish(store, 1)
    while store.promote(1000) is not None:
        pass
    say(
        f"the first ends and all {width:,} hear of it",
        f"{1000 * (time.perf_counter() - begun):,.0f} ms",
    )
    begun = time.perf_counter()
    for _ in range(SINGLES):
        _finish(store, 1)
    single = (time.perf_counter() - begun) / SINGLES
    say("take and end one of them", f"{1000 * single:.2f} ms")
    begun = time.perf_counter()
    while _finish(store, 50):
        pass
    say("the rest, 50 at a time, and the last", f"{1000 * (time.perf_counter() - begun):,.0f} ms")
    [last] = store.get(["f.z"])
    assert last is not None
    assert last.state == "complete"
    return single


def _finish(store: Store, number: int) -> int:
    taken = store.reserve("flower", ["f"], number, EVERYTHING)
    store.commit([decide(task, Done()) for task in taken])
    return len(taken)
