"""A batch does to each of its tasks what would be done to it alone, however much they are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Cancel, Done, Fail, Happening, Interrupt, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Change, Fault, Filter, NewTask, Task
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from tests.contract.builders import Clock, check_counts, ids, new, register, submit

LONG = "long " * 1000
"""Too long for the record of a task in Redis."""

PLAIN: list[dict[str, Any]] = [{"parameters": {"number": number}} for number in range(6)]
MIXED: list[dict[str, Any]] = [
    {"name": "f"},
    {"name": "g", "parameters": 1},
    {"name": "f", "parameters": LONG},
    {"name": "f", "owner": "somebody"},
    {"name": "f", "priority": 5},
    {"name": "f", "tags": ("a", "b")},
    {"command": ("ls", "-l"), "env": {"A": "b"}},
    {"key": "k", "name": "f"},
    {"unique": "u", "name": "f"},
    {"notify": ("ended:http://127.0.0.1:1/",), "name": "f"},
    {"notify": ("ended:http://127.0.0.1:1/",), "name": "f"},
    {"name": "f", "expire": 100.0},
    {"name": "f", "expire": 100.0},
    {"name": "f", "parameters": b"bytes"},
]
ENDS: list[Happening] = [
    Done(1),
    Done(None),
    Done(LONG),
    Done("short"),
    Done(b"bytes"),
    Done("a" * 200),
    Fail(Fault("Error", "it broke")),
    Interrupt("its worker stopped"),
    Done({"x": [1, 2]}),
    Interrupt("its worker stopped"),
    Start(7),
]


class Both:
    """The same tasks in two queues: in one all is done at once, in the other one by one."""

    def __init__(self, store: Store, tasks: Sequence[dict[str, Any]]) -> None:
        self._store = store
        register(store)
        for queue in ("together", "apart"):
            submit(store, *(_named(queue, number, each) for number, each in enumerate(tasks)))

    def take(self, limit: int) -> None:
        together = self._store.reserve("w", ["together"], limit, EVERYTHING)
        apart: list[Task] = []
        while len(apart) < limit:
            found = self._store.reserve("w", ["apart"], 1, EVERYTHING)
            if not found:
                break
            apart += found
        assert [_bare(task) for task in together] == [_bare(task) for task in apart]

    def change(self, happen: Callable[[int], Happening]) -> None:
        """What becomes of those that run, by their number."""
        together = self._store.commit(self._changes("together", happen))
        apart = [self._store.commit([each])[0] for each in self._changes("apart", happen)]
        assert None not in together
        assert [_bare(task) for task in together] == [_bare(task) for task in apart]

    def check(self) -> None:
        """All that the store says of the one it says of the other."""
        store = self._store
        assert self._listed("together") == self._listed("apart")
        for task in self._tasks("together"):
            twin = _twin(task.id)
            assert _events(store, task.id) == _events(store, twin)
            assert store.attempts(task.id) == store.attempts(twin)
            assert _told(store, task.id) == _told(store, twin)
        numbers = [event.number for event in store.watch(0, 0.0, 1000)]
        assert numbers == sorted(set(numbers))
        held = [_bare(task) for task in store.holdings("w")]
        assert sorted(held, key=lambda task: task.id) == sorted(
            [_bare(task) for queue in ("together", "apart") for task in self._running(queue)],
            key=lambda task: task.id,
        )
        check_counts(store)

    def _changes(self, queue: str, happen: Callable[[int], Happening]) -> list[Change]:
        return [decide(task, happen(_number(task.id))) for task in self._running(queue)]

    def _running(self, queue: str) -> list[Task]:
        found = [task for task in self._tasks(queue) if task.state in ("reserved", "started")]
        return sorted(found, key=lambda task: _number(task.id))

    def _tasks(self, queue: str) -> list[Task]:
        return list(self._store.find(Filter(queues=(queue,)), None, 100).tasks)

    def _listed(self, queue: str) -> list[Task]:
        return [_bare(task) for task in self._tasks(queue)]


def _named(queue: str, number: int, fields: dict[str, Any]) -> NewTask:
    return new(f"{queue}-{number}", queue, **fields)


def _number(id: str) -> int:
    return int(id.rpartition("-")[2])


def _twin(id: str) -> str:
    return f"apart-{_number(id)}"


def _bare(task: Task | None) -> Task:
    """A task without what tells the two queues apart."""
    assert task is not None
    return replace(task, id=str(_number(task.id)), queue="")


def _events(store: Store, id: str) -> list[tuple[object, ...]]:
    found = store.events(id)
    assert [each.number for each in found] == sorted({each.number for each in found})
    return [(each.at, each.event, each.attempt, each.worker, each.note) for each in found]


def _told(store: Store, id: str) -> list[tuple[str, str]]:
    return [(each.event, each.to) for each in store.notices(id, None, None, 10).notices]


@pytest.mark.parametrize(
    "tasks", [PLAIN, MIXED, PLAIN + MIXED + PLAIN], ids=["plain", "mixed", "all"]
)
def test_a_batch_does_to_each_what_would_be_done_to_it_alone(
    store: Store, clock: Clock, tasks: list[dict[str, Any]]
) -> None:
    both = Both(store, tasks)
    both.take(len(tasks) - 2)
    both.check()
    clock.advance(1.25)
    both.change(lambda number: ENDS[number % len(ENDS)])
    both.check()
    clock.advance(1.0)
    both.take(len(tasks))
    both.check()
    clock.advance(0.125)
    both.change(Done)
    both.check()


def test_a_history_that_grows_in_batches_is_kept_whole(store: Store, clock: Clock) -> None:
    both = Both(store, PLAIN)
    for _ in range(15):
        clock.advance(1.0)
        both.take(len(PLAIN))
        both.change(lambda number: Interrupt("its worker stopped, for the note is to be long"))
    both.check()


def test_the_same_task_may_come_twice_in_a_batch(store: Store) -> None:
    """The second finds what the first has left; the others are not disturbed."""
    register(store)
    submit(store, *(_named("q", number, each) for number, each in enumerate(PLAIN)))
    held = store.reserve("w", ["q"], 10, EVERYTHING)
    start = [decide(task, Start(1)) for task in held]
    end = [decide(replace(task, state="started"), Done(task.id)) for task in held]

    answers = store.commit([*start[:3], *end[:3], *end[3:], *start[3:]])

    assert [task is not None for task in answers] == [True] * 6 + [False] * 3 + [True] * 3
    states = [task and task.state for task in store.get([task.id for task in held])]
    assert states == ["complete"] * 3 + ["started"] * 3
    assert [store.get([task.id])[0].result for task in held[:3]] == [task.id for task in held[:3]]  # type: ignore[union-attr]
    check_counts(store)


def test_what_is_refused_in_a_batch_is_left_alone(store: Store) -> None:
    register(store)
    submit(store, *(_named("q", number, each) for number, each in enumerate(PLAIN)))
    held = store.reserve("w", ["q"], 10, EVERYTHING)
    late = [replace(task, attempt=task.attempt + number % 2) for number, task in enumerate(held)]
    before = store.get([task.id for task in held])

    answers = store.commit([decide(task, Done(task.id)) for task in late])

    assert [task is not None for task in answers] == [True, False] * 3
    after = store.get([task.id for task in held])
    assert after[1::2] == before[1::2]
    assert [task.result for task in after[::2] if task] == [task.id for task in held[::2]]
    check_counts(store)


def test_a_limit_of_keys_counts_each_of_a_batch(store: Store) -> None:
    """Also of one that was taken before there was a limit."""
    register(store)
    submit(store, *(_named("q", number, {"key": "k", "name": "f"}) for number in range(8)))
    held = store.reserve("w", ["q"], 3, EVERYTHING)
    store.set_queue("q", key_limit=3)
    assert store.reserve("w", ["q"], 10, EVERYTHING) == []
    _, more = store.turn("w", [decide(task, Done()) for task in held[1:]], ["q"], 10, EVERYTHING)
    assert len(more) == 2


def test_the_end_of_each_of_a_batch_is_told(store: Store) -> None:
    register(store)
    wanted = {"notify": ("ended:http://127.0.0.1:1/",)}
    submit(store, *(_named("q", number, wanted) for number in range(3)))
    held = store.reserve("w", ["q"], 10, EVERYTHING)
    store.commit([decide(task, Done()) for task in held])
    assert [len(_told(store, task.id)) for task in held] == [1, 1, 1]


def test_what_was_taken_in_a_batch_does_not_expire(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, *(_named("q", number, {"expire": 10.0}) for number in range(3)))
    held = store.reserve("w", ["q"], 10, EVERYTHING)
    clock.advance(20)
    assert store.promote(10) is None
    assert store.get(ids(held)) == held


def test_scheduled_tasks_that_were_cancelled_in_a_batch_never_become_due(
    store: Store, clock: Clock
) -> None:
    tasks = submit(store, *(_named("q", number, {"delay": 10.0}) for number in range(3)))
    store.commit([decide(task, Cancel()) for task in tasks])
    clock.advance(20)
    assert store.promote(10) is None
    assert {task.state for task in store.get(ids(tasks)) if task} == {"cancelled"}
    check_counts(store)


def test_waiting_tasks_that_were_cancelled_in_a_batch_wait_for_nothing(store: Store) -> None:
    [first] = submit(store, new("first"))
    tasks = submit(store, *(_named("q", number, {"after": (first.id,)}) for number in range(3)))
    store.commit([decide(task, Cancel()) for task in tasks])
    assert [store.waits(task.id, 10) for task in tasks] == [([], 0)] * 3
    check_counts(store)


def test_a_batch_of_tasks_can_be_cancelled_before_they_are_taken(store: Store) -> None:
    tasks = submit(store, *(_named("q", number, each) for number, each in enumerate(PLAIN + MIXED)))
    answers = store.commit([decide(task, Cancel()) for task in tasks])
    assert {task.state for task in answers if task} == {"cancelled"}
    register(store)
    assert store.reserve("w", ["q"], 100, EVERYTHING) == []
    check_counts(store)
