"""However many programs and functions wait in a queue, what is best is taken first."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stayer.core.model import NewTask
from stayer.core.ordering.lanes import handles_lane
from stayer.core.worker_model import EVERYTHING, Handles
from stayer.store import Store
from tests.contract.builders import Clock, check_counts, ids, new, register, submit

LANES = 45


def crowd(number: int) -> list[NewTask]:
    """Tasks of many kinds; the answer is always the same."""
    pick = random.Random(number)
    tasks: list[NewTask] = []
    for each in range(number):
        which = pick.randrange(LANES)
        kinds: list[dict[str, Any]] = [
            {"command": (f"/bin/p{which}", "x")},
            {"name": f"module.f{which}"},
            {},
        ]
        [kind] = pick.choices(kinds, (6, 3, 1))
        tasks.append(
            new(
                f"t{each:03d}",
                priority=pick.choice([0, 0, 0, 0, 2, -1]),
                held=pick.random() < 0.1,
                expire=pick.choice([None, None, None, 5.0, 1000.0]),
                **kind,
            )
        )
    return tasks


def lane(task: NewTask) -> str:
    if task.command:
        return f"command {task.command[0]}"
    return f"name {task.name}" if task.name else ""


def wanted(tasks: list[NewTask], handles: Handles) -> list[str]:
    """Those that have not expired, best first."""
    able = [
        task
        for task in tasks
        if not task.held and task.expire != 5.0 and handles_lane(lane(task), handles)
    ]
    return [task.id for task in sorted(able, key=lambda task: (-task.priority, task.id))]


@pytest.mark.parametrize(
    "handles",
    [
        EVERYTHING,
        Handles(programs=("*",)),
        Handles(programs=("/bin/p1*", "/bin/p20"), plain=True),
        Handles(names=("module.f3", "module.f30")),
    ],
)
def test_what_is_best_in_many_lanes_is_taken_first(
    store: Store, clock: Clock, handles: Handles
) -> None:
    register(store, lease=1000.0)
    tasks = crowd(240)
    for task in tasks:
        submit(store, task)
        clock.advance(0.001)
    clock.advance(6.0)
    taken: list[str] = []
    for limit in (1, 2, 50, 1, 30, 500):
        taken += ids(store.reserve("w", ["q"], limit, handles))
    assert taken == wanted(tasks, handles)
    assert store.reserve("w", ["q"], 1, handles) == []
    check_counts(store)


def test_a_crowd_for_others_in_front_hides_nothing(store: Store) -> None:
    register(store)
    submit(store, *(new(f"other{number:03d}", command=("other",)) for number in range(2000)))
    submit(store, *(new(f"kind{number}", command=(f"kind{number}",)) for number in range(LANES)))
    submit(store, new("mine", command=("mine",)), new("urgent", command=("mine",), priority=1))
    mine = Handles(programs=("mine",))
    assert ids(store.reserve("w", ["q"], 5, mine)) == ["urgent", "mine"]
    assert ids(store.reserve("w", ["q"], 2, EVERYTHING)) == ["other000", "other001"]
    check_counts(store)


def test_what_is_peeked_at_in_many_lanes_is_what_is_taken(store: Store) -> None:
    register(store)
    tasks = [new(f"t{each}", command=(f"p{each}",), priority=each % 3 - 1) for each in range(60)]
    submit(store, *tasks)
    seen = ids(store.peek("q", 10))
    assert seen == ids(store.reserve("w", ["q"], 10, EVERYTHING))
    assert seen == [f"t{each}" for each in range(2, 32, 3)]
