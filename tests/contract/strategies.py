"""What may be done to a store, and in which ways: the choices that `test_model` draws from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from stayer.core.happenings import (
    Ask,
    Cancel,
    Done,
    Due,
    Expire,
    Fail,
    Happening,
    Hold,
    Interrupt,
    Note,
    Pin,
    Release,
    Retry,
    Set,
    Snooze,
    Start,
    Stop,
    WorkerLost,
)
from stayer.core.lifecycle import TABLE
from stayer.core.model import FINISHED, STATES, Fault, NewTask, Pinned, Policy, Task
from stayer.core.queue_model import QueueSettings, Rate
from stayer.core.worker_model import EVERYTHING, Handles

IDS = [f"t{number}" for number in range(12)]
QUEUES = ["a", "b", "c"]
WORKERS = ["w1", "w2", "w3"]
LEASE = 80.0

some_ids = st.sampled_from(IDS)
some_queues = st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True)
some_workers = st.sampled_from(WORKERS)
some_limits = st.integers(0, 5)
some_delays_of_news = st.sampled_from([0.0, 0.0, 3.0, 1000.0])
some_reports = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5)), max_size=4)
some_numbers = st.lists(st.integers(0, 29), min_size=1, max_size=4)
some_states = st.sampled_from([FINISHED, STATES, FINISHED[:1], FINISHED[1:], ()])
some_handles = st.sampled_from(
    [
        EVERYTHING,
        EVERYTHING,
        Handles(plain=True),
        Handles(names=("x.*",), programs=("ff*",)),
        Handles(plain=True, names=("[xy].?",)),
    ]
)
some_settings: st.SearchStrategy[QueueSettings] = st.fixed_dictionaries(  # type: ignore[assignment]
    {},
    optional={
        "paused": st.sampled_from([False, False, True]),
        "limit": st.sampled_from([None, None, 0, 1, 3]),
        "key_limit": st.sampled_from([None, 0, 1, 1, 2]),
        "key_limits": st.dictionaries(
            st.sampled_from(["k1", "k2"]), st.sampled_from([None, 0, 1, 2]), max_size=2
        ),
        "rate": st.sampled_from([None, None, Rate(1, 3.0), Rate(3, 60.0), Rate(2, 1.0)]),
        "fair": st.sampled_from([None, "owner", "key"]),
    },
)
some_kinds: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {},
        {"name": "x.a"},
        {"name": "y.b"},
        {"name": "x.long"},
        {"command": ("ffmpeg", "-i")},
        {"command": ("sh",)},
    ]
)


def _new(kind: dict[str, Any], uniqueness: dict[str, Any], **fields: Any) -> NewTask:
    return NewTask(**kind, **uniqueness, **fields)


some_tasks = st.builds(
    _new,
    kind=some_kinds,
    id=some_ids,
    queue=st.sampled_from(QUEUES),
    parameters=st.sampled_from([None, {"a": 1}, b"raw"]),
    priority=st.integers(-1, 2),
    delay=st.sampled_from([None, None, 0.0, 3.0, 5.0, 50.0]),
    expire=st.sampled_from([None, None, None, 0.0, 4.0, 40.0]),
    held=st.sampled_from([False, False, False, True]),
    key=st.sampled_from([None, "k1", "k1", "k2", "k3"]),
    owner=st.sampled_from([None, "ann", "bob"]),
    uniqueness=st.sampled_from(
        [
            {},
            {},
            {"unique": "u1"},
            {"unique": "u1", "unique_while": "waiting"},
            {"unique": "u2", "unique_for": 10.0},
        ]
    ),
    policy=st.builds(Policy, retries=st.integers(0, 1), losses=st.integers(1, 3)),
)
happenings: dict[type[Happening], st.SearchStrategy[Happening]] = {
    Due: st.just(Due()),
    Start: st.builds(Start, pid=st.integers(1, 9)),
    Done: st.builds(Done, result=st.sampled_from([None, "end", b"raw"])),
    Fail: st.builds(Fail, error=st.just(Fault("Boom")), ending=st.sampled_from(["error", "oom"])),
    Interrupt: st.builds(Interrupt, note=st.sampled_from([None, "why"])),
    WorkerLost: st.just(WorkerLost()),
    Snooze: st.builds(Snooze, delay=st.sampled_from([0.0, 5.0, 50.0])),
    Stop: st.just(Stop()),
    Expire: st.just(Expire()),
    Cancel: st.builds(Cancel, grace=st.sampled_from([None, 3.0])),
    Ask: st.builds(Ask, verb=st.sampled_from(["pause", "resume", "signal"])),
    Note: st.just(Note("thawed", "stood still: long")),
    Pin: st.just(Pin(Pinned("3.11", "ab12"), "numpy==2.0\n")),
    Set: st.builds(
        Set,
        priority=st.integers(-2, 3),
        policy=st.sampled_from([UNSET, Policy(retries=1, time_limit=5.0)]),
        limits=st.sampled_from([{}, {"time": 5.0}]),
    ),
    Retry: st.just(Retry()),
    Hold: st.just(Hold()),
    Release: st.just(Release()),
}


def possible(task: Task) -> st.SearchStrategy[Happening]:
    """What may happen to a task in its state."""
    return st.one_of(
        [strategy for kind, strategy in happenings.items() if (task.state, kind) in TABLE]
    )
