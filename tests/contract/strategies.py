"""What may be done to a store, and in which ways: the choices that `test_model` draws from."""

from __future__ import annotations

from hypothesis import strategies as st

from stayer.core.lifecycle import (
    TABLE,
    Ask,
    Cancel,
    Done,
    Due,
    Expire,
    Fail,
    Happening,
    Hold,
    Interrupt,
    Lose,
    Release,
    Retry,
    Snooze,
    Start,
    Stop,
)
from stayer.core.model import EVERYTHING, STATES, Fault, Handles, NewTask, Policy, Task

IDS = [f"t{number}" for number in range(12)]
QUEUES = ["a", "b", "c"]
WORKERS = ["w1", "w2", "w3"]
LEASE = 80.0

some_ids = st.sampled_from(IDS)
some_queues = st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True)
some_workers = st.sampled_from(WORKERS)
some_limits = st.integers(0, 5)
some_states = st.lists(st.sampled_from(STATES), unique=True)
some_handles = st.sampled_from(
    [
        EVERYTHING,
        EVERYTHING,
        Handles(plain=True),
        Handles(names=("x.*",), programs=("ff*",)),
        Handles(plain=True, names=("[xy].?",)),
    ]
)
some_tasks = st.builds(
    NewTask,
    id=some_ids,
    queue=st.sampled_from(QUEUES),
    name=st.sampled_from([None, None, "x.a", "y.b", "x.long"]),
    command=st.sampled_from([None, ("ffmpeg", "-i"), ("sh",)]),
    parameters=st.sampled_from([None, {"a": 1}, b"raw"]),
    priority=st.integers(-1, 2),
    delay=st.sampled_from([None, None, 0.0, 5.0, 50.0]),
    held=st.sampled_from([False, False, False, True]),
    policy=st.builds(Policy, retries=st.integers(0, 1), losses=st.integers(1, 2)),
).filter(lambda new: new.name is None or new.command is None)
happenings: dict[type[Happening], st.SearchStrategy[Happening]] = {
    Due: st.just(Due()),
    Start: st.builds(Start, pid=st.integers(1, 9)),
    Done: st.builds(Done, result=st.sampled_from([None, "end", b"raw"])),
    Fail: st.builds(Fail, error=st.just(Fault("Boom")), ending=st.sampled_from(["error", "oom"])),
    Interrupt: st.builds(Interrupt, note=st.sampled_from([None, "why"])),
    Lose: st.just(Lose()),
    Snooze: st.builds(Snooze, delay=st.sampled_from([0.0, 5.0, 50.0])),
    Stop: st.just(Stop()),
    Expire: st.just(Expire()),
    Cancel: st.builds(Cancel, grace=st.sampled_from([None, 3.0])),
    Ask: st.builds(Ask, verb=st.sampled_from(["pause", "resume", "signal"])),
    Retry: st.just(Retry()),
    Hold: st.just(Hold()),
    Release: st.just(Release()),
}


def possible(task: Task) -> st.SearchStrategy[Happening]:
    """What may happen to a task in its state."""
    return st.one_of(
        [strategy for kind, strategy in happenings.items() if (task.state, kind) in TABLE]
    )
