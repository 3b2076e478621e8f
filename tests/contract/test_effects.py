"""Whatever `decide` says, a store does: every happening in every state, and nothing besides."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stayer.core.happenings import (
    Ask,
    Cancel,
    Done,
    Due,
    Edit,
    Expire,
    Fail,
    Happening,
    Hold,
    Interrupt,
    Note,
    Pin,
    Ready,
    Release,
    Retry,
    Set,
    Snooze,
    Start,
    Stop,
    UpstreamFailed,
    WaitAgain,
    WorkerLost,
)
from stayer.core.lifecycle import TABLE, decide
from stayer.core.model import (
    QUEUED,
    STATES,
    AttemptNews,
    Change,
    Code,
    Fault,
    Pinned,
    Policy,
    Progress,
    Report,
    State,
    Task,
    Usage,
)
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    get,
    new,
    register,
    submit,
    take_one,
)

BOOM = Fault("Boom", "it broke", exit_code=1)
HAPPENINGS: tuple[Happening, ...] = (
    Ready(),
    Ready(near=("node", 30.0)),
    UpstreamFailed("up, which is failed"),
    UpstreamFailed("up, which is failed", last=True),
    Due(),
    Start(7),
    Done({"n": 1}),
    Fail(BOOM),
    Fail(BOOM, "oom", after=9.0),
    Fail(BOOM, final=True),
    Interrupt("drained"),
    WorkerLost("worker w lost"),
    Snooze(60.0),
    Snooze(60.0, "no network", "environment", BOOM),
    Stop(),
    Expire(),
    Cancel(grace=3.0),
    Ask("signal", {"signal": 10}),
    Note("adopted", "by another"),
    Pin(Pinned("3.11", "ab12", "c0ffee"), "numpy==2.0\n"),
    Set(priority=1, policy=Policy(retries=9), notify=("ended:http://127.0.0.1:1/",)),
    Edit(
        sets={"command": ("cat",), "name": None, "tags": ("a", "b"), "env": {"A": "1"}, "cwd": "/"},
        parameters={"n": 2},
        note="all of it",
    ),
    Edit(sets={"code": Code(("scipy",))}, note="code"),
    Edit(sets={"code": None}, note="no code"),
    Edit(sets={"eta": 1_800_000_000.0}, is_early=True, note="eta"),
    Edit(sets={"tags": (), "eta": None, "start_before": None}, parameters=None, note="less"),
    Retry(),
    Retry(edit=Edit(sets={"name": "f", "command": None}, parameters=b"raw", note="other")),
    Retry(waits=("up",)),
    Retry(from_start=True),
    Retry(unpins=True),
    Retry(unpins=True, edit=Edit(sets={"code": Code((), "3.12")}, note="code")),
    WaitAgain(("up",)),
    Hold(),
    Release(),
)
FIELDS: tuple[dict[str, Any], ...] = (
    {},
    {
        "command": ("ls", "-l"),
        "owner": "me",
        "key": "k",
        "expire": 5000.0,
        "code": Code(("numpy>=2",), "3.11", "https://host/repo@main"),
        "policy": Policy(retries=2, when_failed="hold"),
    },
)
_beats = itertools.count(2)


def brought(store: Store, clock: Clock, id: str, state: State, fields: dict[str, Any]) -> Task:
    """A task in this state that has as many fields filled as it can have there."""
    after = ("up",) if state == "waiting" else ()
    submit(store, new(id, after=after, delay=50.0 if state == "scheduled" else None, **fields))
    if state in QUEUED:
        return get(store, id)
    if state == "cancelled":
        return apply(store, get(store, id), Cancel())
    task = take_one(store)
    if state == "reserved":
        return task
    clock.advance(3)
    task = apply(store, apply(store, task, Start(5)), Ask("pause"))
    saved = Report(
        id=id, attempt=1, progress=Progress(1.0, 2.0), checkpoint=b"saved", usage=Usage(1.0),
        paused=True, acknowledged=1,
    )  # fmt: skip
    beat(store, "w", next(_beats), saved)
    task = get(store, id)
    clock.advance(3)
    if state == "started":
        return task
    return apply(store, task, Done("result") if state == "complete" else Fail(BOOM, final=True))


def as_decided(task: Task, change: Change, now: float) -> Task:
    """The task as the effect of the change makes it."""
    effect = change.effect
    becomes = {"state": effect.to, **effect.sets}
    becomes |= {field: now + seconds for field, seconds in effect.times.items()}
    if effect.moment is not None:
        becomes[effect.moment] = now - change.ago
    if change.result is not UNSET:
        becomes["result"] = change.result
    if change.parameters is not UNSET:
        becomes["parameters"] = change.parameters
    return replace(task, **becomes)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fields", FIELDS, ids=["plain", "full"])
def test_a_store_does_what_is_decided(
    store: Store, clock: Clock, state: State, fields: dict[str, Any]
) -> None:
    register(store, slots=100)
    submit(store, new("up", queue="upstreams", held=True))
    happenings = [each for each in HAPPENINGS if (state, type(each)) in TABLE]
    assert happenings
    for number, happening in enumerate(happenings):
        id = f"{state}-{number}"
        task = brought(store, clock, id, state, fields)
        events, attempts = store.events(id), store.attempts(id)
        clock.advance(10)
        change = decide(task, happening, ago=2.0)
        effect = change.effect

        [after] = store.commit([change])

        assert after == get(store, id) == as_decided(task, change, clock.now), happening
        said = [(each.event, each.note, each.at, each.worker) for each in store.events(id)]
        assert said[: len(events)] == [(e.event, e.note, e.at, e.worker) for e in events]
        expected = (effect.event, effect.note, clock.now, task.worker)
        assert said[len(events) :] == ([] if effect.event is None else [expected])
        news = effect.attempt or AttemptNews()
        for before, now in zip(attempts, store.attempts(id), strict=True):
            assert now.ending == (news.ending or before.ending)
            assert now.error == (news.error or before.error)
            assert now.pid == (news.pid or before.pid)
        if effect.waits is not UNSET:
            assert store.waits(id, 10) == (list(effect.waits), len(effect.waits))
        saved = store.checkpoint(id)
        assert (saved is None) == (effect.forgets_checkpoint or task.checkpoint_at is None)
        check_counts(store)
        if after.state not in ("complete", "failed", "cancelled"):
            apply(store, after, Cancel() if after.state in QUEUED else Done())
