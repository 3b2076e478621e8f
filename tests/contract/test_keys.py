"""Limits of keys: how many tasks of one key run at once, and that others pass by a full one."""

from __future__ import annotations

from collections import Counter

import pytest

from stayer.core.errors import BadInput
from stayer.core.happenings import (
    Done,
    Fail,
    Hold,
    Interrupt,
    Release,
    Set,
    Snooze,
    Start,
    WorkerLost,
)
from stayer.core.model import RUNNING, Fault, Filter, Task
from stayer.core.worker_model import EVERYTHING, Handles
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract import actors
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    counts,
    fill,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    take_one,
)


def keys(tasks: list[Task]) -> list[str | None]:
    return [task.key for task in tasks]


def test_no_more_than_the_limit_of_a_key_is_given(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=2)
    fill(store, 5, key="a")
    fill(store, 3, key="b")
    given = take(store, limit=10)
    assert keys(given) == ["a", "a", "b", "b"]
    assert take(store, limit=10) == []
    apply(store, given[0], Done())
    assert keys(take(store, limit=10)) == ["a"]


def test_tasks_without_a_key_are_not_limited(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    fill(store, 2, key="a")
    fill(store, 3)
    assert keys(take(store, limit=10)) == ["a", None, None, None]


def test_single_keys_may_have_other_limits(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1, key_limits={"large": 3, "shut": 0})
    for key in ("large", "shut", "usual"):
        fill(store, 4, key=key)
    assert Counter(keys(take(store, limit=20))) == {"large": 3, "usual": 1}
    info = store.set_queue("q", key_limits={"shut": None})
    assert (info.key_limit, info.key_limits) == (1, {"large": 3})
    assert keys(take(store, limit=20)) == ["shut"]


def test_a_single_key_may_be_the_only_one_with_a_limit(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limits={"a": 1})
    fill(store, 3, key="a")
    fill(store, 3, key="b")
    assert Counter(keys(take(store, limit=20))) == {"a": 1, "b": 3}


def test_a_key_counts_in_its_own_queue(store: Store) -> None:
    register(store)
    for queue in ("q", "r"):
        store.set_queue(queue, key_limit=1)
        fill(store, 2, queue=queue, key="a")
    assert [task.queue for task in take(store, queues=["q", "r"], limit=9)] == ["q", "r"]


@pytest.mark.parametrize(
    "how",
    [Done(), Fail(Fault("Boom")), Interrupt(), Snooze(5), WorkerLost()],
    ids=lambda how: type(how).__name__,
)
def test_every_ending_frees_the_place(store: Store, how: Done | Fail | Interrupt) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    running = started(store, key="a")
    fill(store, 2, key="a")
    assert take(store, limit=5) == []
    apply(store, running, how)
    assert len(take(store, limit=5)) == 1
    assert take(store, limit=5) == []


def test_deleting_the_queue_leaves_no_place_taken(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    apply(store, started(store, key="a"), Done())
    fill(store, 3, key="a")
    while store.drop_queue("q", 2):
        pass
    store.set_queue("q", key_limit=1)
    fill(store, 2, key="a")
    assert keys(take(store, limit=5)) == ["a"]


def test_the_dead_free_their_places_when_their_tasks_are_returned(store: Store) -> None:
    register(store, "judge")
    register(store, "w")
    store.set_queue("q", key_limit=1)
    fill(store, 2, key="a")
    take_one(store, "w")
    assert take(store, "judge") == []
    lost = store.declare_lost("judge", {"w": 1})
    assert worker_control.return_lost_tasks(store, lost) == 1
    assert keys(take(store, "judge", limit=5)) == ["a"]


def test_the_order_stays(store: Store, clock: Clock) -> None:
    register(store)
    store.set_queue("q", key_limit=2)
    for name, key, priority in [
        ("a1", "a", 0), ("b1", "b", 0), ("a2", "a", 1), ("a3", "a", 5), ("n", None, 1),
        ("b2", "b", 0),
    ]:  # fmt: skip
        submit(store, new(name, key=key, priority=priority))
        clock.advance(1)
    assert ids(take(store, limit=10)) == ["a3", "a2", "n", "b1", "b2"]


def test_a_flood_of_a_full_key_hides_nobody(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    fill(store, 1200, key="flood")
    [other] = fill(store, 1, key="other")
    [plain] = fill(store, 1)
    [kind] = fill(store, 1, key="third", name="kind")
    assert keys(take(store)) == ["flood"]
    assert ids(take(store)) == [other]
    assert ids(take(store, limit=5)) == [plain, kind]
    assert take(store, limit=5) == []


def test_only_what_the_worker_can_run_takes_a_place(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    submit(store, new("f", key="a", name="f"), new("g", key="a", name="g"), new("p", key="a"))
    assert take(store, handles=Handles(names=("h",)), limit=5) == []
    assert ids(take(store, handles=Handles(names=("g",)), limit=5)) == ["g"]
    assert take(store, handles=EVERYTHING, limit=5) == []


def test_limits_may_come_and_go_while_tasks_wait_and_run(store: Store) -> None:
    register(store)
    fill(store, 8, key="a")
    running = take(store, limit=3)
    store.set_queue("q", key_limit=2)
    assert take(store, limit=5) == []
    store.set_queue("q", key_limit=4)
    assert len(take(store, limit=5)) == 1
    for task in running:
        apply(store, task, Done())
    store.set_queue("q", key_limit=None)
    assert len(take(store, limit=9)) == 4
    store.set_queue("q", key_limit=1)
    assert take(store, limit=9) == []
    check_counts(store)


def test_what_is_done_to_waiting_tasks_counts_in_their_lines(store: Store, clock: Clock) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    submit(
        store, new("a", key="k"), new("b", key="k"), new("c", key="k", delay=5), new("d", key="l")
    )
    apply(store, get(store, "a"), Hold())
    apply(store, get(store, "b"), Set(priority=-1))
    assert ids(take(store, limit=5)) == ["d", "b"]
    apply(store, get(store, "b"), Done())
    control.cancel(store, "a")
    assert take(store, limit=5) == []
    clock.advance(5)
    store.promote(5)
    apply(store, get(store, "d"), Interrupt())
    apply(store, get(store, "d"), Hold())
    assert ids(take(store, limit=5)) == ["c"]
    apply(store, get(store, "d"), Release())
    assert ids(take(store, limit=5)) == ["d"]


def test_a_retry_stands_in_line_again(store: Store) -> None:
    register(store)
    first = apply(store, started(store, id="a", key="k"), Done())
    store.set_queue("q", key_limit=1)
    fill(store, 2, key="k")
    edit_control.retry(store, first.id)
    assert ids(take(store, limit=5)) == ["a"]


def test_peek_shows_what_would_come_if_nothing_were_limited(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    names = fill(store, 2, key="a") + fill(store, 2, key="b")
    assert ids(store.peek("q", 10)) == names
    assert ids(store.peek("q", 3)) == names[:3]


def test_a_place_that_becomes_free_wakes_who_waits(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=1)
    running = started(store, key="a")
    fill(store, 1, key="a")
    waiter = store.waiter("w", ["q"])
    apply(store, running, Done())
    assert waiter.wait(60)
    waiter.close()


def test_a_limit_is_never_exceeded(timely: Store, url: str) -> None:
    timely.set_queue("q", key_limit=2)
    submit(timely, *(new(key=f"k{number % 3}") for number in range(60)))
    actors.together(actors.work_within_key_limits, [(url, f"w{n}", 60, 2) for n in range(4)])
    assert counts(timely) == {"complete": 60}
    assert not list(control.find_all(timely, Filter(states=RUNNING)))
    check_counts(timely)
    register(timely, "last")
    submit(timely, *(new(key=f"k{number % 3}") for number in range(9)))
    assert Counter(keys(take(timely, "last", limit=9))) == {"k0": 2, "k1": 2, "k2": 2}


def test_start_takes_no_second_place(store: Store) -> None:
    register(store)
    store.set_queue("q", key_limit=2)
    fill(store, 3, key="a")
    apply(store, take_one(store), Start())
    assert len(take(store, limit=5)) == 1


def test_a_queue_has_at_most_a_thousand_key_limits_however_they_come(store: Store) -> None:
    some = {f"k{number}": 1 for number in range(1000)}
    assert store.set_queue("q", key_limits=some).key_limits == some
    with pytest.raises(BadInput, match="at most 1,000 fit"):
        store.set_queue("q", key_limits={"one more": 1})
    assert store.queues(["q"])[0].key_limits == some
    assert store.set_queue("q", key_limits={"k0": None, "k1": 2, "new": 3}).key_limits == {
        **{key: limit for key, limit in some.items() if key != "k0"}, "k1": 2, "new": 3,
    }  # fmt: skip
    assert store.set_queue("q", key_limits=dict.fromkeys([*some, "new"])).key_limits == {}
