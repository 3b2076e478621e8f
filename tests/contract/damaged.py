"""A store with something of everything in it, and everything that somebody may ask of it."""

from __future__ import annotations

from contextlib import suppress

from stayer.core import codec
from stayer.core.errors import BadInput, LeaseLost, Refused
from stayer.core.flows.plan import PartPlan, lay_out
from stayer.core.happenings import Done, Fail, Start
from stayer.core.model import Fault, Filter, LogPiece, Progress, Report, Usage
from stayer.core.notify.notices import Delivery, notice_record
from stayer.core.queue_model import Rate
from stayer.core.schedules import parse
from stayer.core.schedules.model import Schedule
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from tests.contract.builders import apply, beat, commit, new, register, submit, take_one, worker

GOOD = "good"
"""The queue that stays as it was, and what it has."""


def scene(store: Store) -> None:
    """Tasks in all states, and all that belongs to tasks, queues and workers."""
    known = register(store, queues=("q", GOOD))
    register(store, "other")
    store.set_queue("q", key_limits={"k": 9}, retention={"failed": 1e6}, notify=("ended:mail",))
    store.set_queue("q", rate=Rate(1000, 1.0), fair="owner", limit=100)
    store.put_schedule(
        Schedule(name="s", cron="@hourly", task=new_task(queue="q", name="n"), next=1.0)
    )
    flow, parts = lay_out(
        "f",
        [
            PartPlan(name="a", tasks=(new_task(queue="q", name="a"),)),
            PartPlan(name="b", tasks=(new_task(queue="q", name="b"),), after=("a",)),
        ],
        id="flow",
    )
    store.submit_flow(flow, parts)
    submit(
        store,
        new("ended", parameters={"n": 1}, owner="ann", key="k", tags=("t",)),
        new("broken", owner="bob"),
        new("runs", command=("sleep", "9"), env={"A": "1"}, cwd="/", unique="u"),
        new("gone"),
    )
    while (task := take_one(store)).id != "ended":
        commit(store, task, Fail(Fault("E", "no")))
    apply(store, apply(store, task, Start(pid=1)), Done("fine"))
    apply(store, apply(store, take_one(store), Start(pid=2)), Fail(Fault("E", "x")))
    running = apply(store, take_one(store), Start(pid=3))
    report = Report(
        id=running.id,
        attempt=running.attempt,
        progress=Progress(done=1, total=2),
        checkpoint=b"saved",
        log=(LogPiece(0, b"hello\n"),),
        usage=Usage(ran=1.0, cpu=1.0),
    )
    beat(store, known, 2, report)
    apply(store, apply(store, take_one(store), Start(pid=4)), Done())
    store.purge(["gone"], ["complete"], store.now() + 9, 9)
    submit(
        store,
        new("waits", owner="ann", key="k", priority=3, start_before=store.now() + 9999.0),
        new("later", delay=9999.0),
        new("after", after=("waits",)),
    )
    for notice in store.take_notices(["mail"], 1, 60.0, 1e6):
        store.settle_notice(notice, Delivery(False, "no answer", 5.0))
    submit(store, new("good-1", queue=GOOD, name="n"), new("good-2", queue=GOOD, name="n"))
    store.sample()


def look_at_everything(store: Store) -> None:
    """Whatever a list, a page or a worker asks; all of it as JSON too."""
    seen: list[object] = []
    for filter in (Filter(), Filter(queues=("q", GOOD)), Filter(states=("pending", "failed")),
                   Filter(tags=("t",)), Filter(since=1.0)):  # fmt: skip
        cursor = None
        while True:
            page = store.find(filter, cursor, 5)
            seen += map(codec.record, page.tasks)
            cursor = page.next
            if cursor is None:
                break
    seen += map(codec.queue_record, store.queues())
    seen += map(codec.worker_record, store.workers())
    seen += map(parse.record, store.schedules())
    seen += map(codec.event_record, store.watch(0, 0.0, 1000))
    for id in ("ended", "broken", "runs", "waits", "later", "after", "gone", "good-1"):
        seen += map(codec.attempt_record, store.attempts(id))
        seen += map(codec.event_record, store.events(id))
        seen += map(codec.usage_record, store.usage(id, 1))
        seen += map(codec.log_record, store.log(id, 1, 0, 1000))
        saved = store.checkpoint(id)
        seen += [] if saved is None else [codec.checkpoint_record(saved)]
        seen += [store.ahead(id), store.waits(id, 9)]
    seen += map(notice_record, store.notices(None, None, None, 9).notices)
    seen += store.flows(None, 9).flows
    seen += [store.flow("flow"), store.failures((), 9), store.durations("q", 9)]
    seen += store.upstreams(["after"])
    seen += store.figures(0.0, store.now() + 60, 60, None)
    seen += map(codec.record, store.peek("q", 9))
    assert "\ufffe" not in repr(seen)


def goes_on(store: Store) -> None:
    """A worker's day: it beats, takes what is good, ends it, and sees to what time brings."""
    try:
        beat(store, worker("other", queues=("q", GOOD)), 2)
        me = "other"
    except LeaseLost:  # its record was the damaged one: it comes under another name
        me = register(store, "third", queues=("q", GOOD)).id
    for _ in range(3):
        store.promote(100)
    store.due_schedules(9)
    store.take_notices(["mail"], 9, 60.0, 1e6)
    store.forget({"complete": 1e9, "failed": 1e9, "log": 1e9, "result": 1e9}, 9)
    store.sample()
    store.declare_lost(me, {})
    store.holdings(me)
    store.reserve(me, ["q"], 1, EVERYTHING)
    [task] = store.reserve(me, [GOOD], 1, EVERYTHING)
    assert task.id == "good-1"
    assert commit(store, task, Start(pid=5)) is not None
    [again] = store.get([task.id])
    assert again is not None
    assert commit(store, again, Done()) is not None
    submit(store, new(queue=GOOD, name="n"))
    with suppress(BadInput, Refused):
        store.submit([new("waits"), new("gone"), new(unique="u")])
