"""Store.reserve: who gets what, in which order, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.errors import LeaseLost
from stayer.core.happenings import (
    Ask,
    Done,
    Fail,
    Happening,
    Hold,
    Interrupt,
    Release,
    Retry,
    Snooze,
    Start,
)
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Order, Policy
from stayer.core.worker_model import EVERYTHING, Handles
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    bare,
    beat,
    check_counts,
    counts,
    fill,
    get,
    happened,
    ids,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
    worker,
)


def test_a_reserved_task_is_held_by_its_worker(store: Store, clock: Clock) -> None:
    register(store, "w")
    submit(store, new("a", parameters=[1]))
    clock.advance(3)

    [task] = take(store, "w")

    assert (task.id, task.state, task.attempt) == ("a", "reserved", 1)
    assert (task.worker, task.node, task.pid) == ("w", "node-of-w", None)
    assert task.updated == clock.now
    assert task.created == clock.now - 3
    assert task.parameters == [1]
    assert get(store, "a") == task
    assert store.holdings("w") == [task]


@pytest.mark.parametrize(
    "happening", [Fail(Fault("Oops"), after=0.0), Interrupt("gone"), Snooze(0.0)]
)
def test_a_task_comes_again_with_all_that_has_become_of_it(
    timely: Store, happening: Happening
) -> None:
    register(timely, "w")
    submit(timely, new("a", policy=Policy(retries=3)), new("b"))
    before, other = take(timely, "w", limit=2)
    apply(timely, before, happening)
    apply(timely, other, Interrupt("gone"))
    timely.promote(10)

    tasks = take(timely, "w", limit=2)

    assert ids(tasks) == ["a", "b"]
    assert tasks == [get(timely, "a"), get(timely, "b")]


@pytest.mark.parametrize(
    "fields",
    [{"unique": "u"}, {"unique": "u", "unique_for": 60.0}, {"key": "k"}, {"tags": ("t",)},
     {"cwd": "/"}, {"env": {"A": "b"}}, {"policy": Policy(retries=1)}, {"expire": 60.0},
     {"priority": 3}, {"owner": "me"}],
)  # fmt: skip
def test_a_task_comes_with_all_it_was_given(store: Store, fields: dict[str, Any]) -> None:
    register(store, "w")
    submit(store, new("a", **fields))

    [task] = take(store, "w")

    assert task == get(store, "a")
    for name in set(fields) - {"expire"}:
        assert getattr(task, name) == fields[name]


def test_history_has_each_start_under_a_number_of_its_own(store: Store) -> None:
    register(store, "w")
    submit(store, new("a"), new("b"), new("c"))
    take(store, "w", limit=3)
    starts = [store.events(id)[-1] for id in ("a", "b", "c")]
    assert [event.event for event in starts] == ["reserved"] * 3
    first = starts[0].number
    assert [event.number for event in starts] == [first, first + 1, first + 2]


def test_a_reservation_is_an_event_and_an_attempt(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("a"))
    clock.advance(3)
    take(store)
    event = store.events("a")[-1]
    assert (event.event, event.at, event.attempt, event.worker) == ("reserved", clock.now, 1, "w")
    [attempt] = store.attempts("a")
    assert (attempt.attempt, attempt.worker, attempt.node) == (1, "w", "node-of-w")
    assert (attempt.reserved_at, attempt.started_at, attempt.ending) == (clock.now, None, None)


def test_a_task_is_given_once(store: Store, other: Store) -> None:
    register(store, "one")
    register(store, "two")
    submit(store, new("a"))
    assert ids(take(store, "one")) == ["a"]
    assert take(other, "two") == []
    assert take(store, "one") == []


def test_each_reservation_is_a_new_attempt(store: Store) -> None:
    register(store)
    task = taken(store)
    for number in (2, 3):
        apply(store, task, Interrupt())
        task = take_one(store)
        assert task.attempt == number


def test_older_goes_first(store: Store, clock: Clock) -> None:
    register(store)
    names = ["c", "a", "b"]
    for name in names:
        submit(store, new(name))
        clock.advance(1)
    assert ids(take(store, limit=3)) == names


def test_higher_priority_goes_before_older(store: Store, clock: Clock) -> None:
    register(store)
    for name, priority in [("a", 0), ("b", -1), ("c", 10), ("d", 9), ("e", 10)]:
        submit(store, new(name, priority=priority))
        clock.advance(1)
    assert ids(take(store, limit=3)) == ["c", "e", "d"]
    assert ids(take(store, limit=3)) == ["a", "b"]


def test_queues_are_taken_from_in_the_order_given(store: Store) -> None:
    register(store)
    submit(
        store, new("a1", queue="a", priority=9), new("b1", queue="b"), new("c1", queue="c"),
        new("b2", queue="b"), new("a2", queue="a"),
    )  # fmt: skip
    assert ids(take(store, queues=["b", "a"], limit=3)) == ["b1", "b2", "a1"]
    assert ids(take(store, queues=["b", "a"], limit=3)) == ["a2"]
    assert get(store, "c1").state == "pending"


def test_a_queue_named_twice_gives_its_tasks_once(store: Store) -> None:
    register(store)
    names = fill(store, 3)
    assert ids(take(store, queues=["q", "q"], limit=10)) == names


def test_no_more_than_the_limit_is_given(store: Store) -> None:
    register(store)
    names = fill(store, 5)
    assert ids(take(store, limit=2)) == names[:2]
    assert take(store, limit=0) == []
    assert ids(take(store, limit=100)) == names[2:]


def test_a_returned_task_has_kept_its_place(store: Store, clock: Clock) -> None:
    # Given three tasks, the first of which is taken, and a newer one with more priority
    register(store)
    for name in ("a", "b", "c"):
        submit(store, new(name))
        clock.advance(1)
    first = take_one(store)
    submit(store, new("urgent", priority=1))

    # When the first is handed back
    clock.advance(100)
    apply(store, first, Interrupt())

    # Then it goes before the younger ones, but not before what is more urgent
    assert ids(take(store, limit=4)) == ["urgent", "a", "b", "c"]


@pytest.mark.parametrize("ending", ["failed", "retried"])
def test_a_task_that_is_tried_again_has_kept_its_place(
    store: Store, clock: Clock, ending: str
) -> None:
    register(store)
    old = taken(store, id="old", policy=Policy(retries=1 if ending == "failed" else 0))
    clock.advance(1)
    submit(store, new("young"))
    ended = apply(store, old, Fail(Fault("Boom")))
    if ending == "retried":
        apply(store, ended, Retry())
    assert ids(take(store, limit=2)) == ["old", "young"]


def test_held_tasks_are_left_alone(store: Store) -> None:
    register(store)
    submit(store, new("a", held=True), new("b"))
    assert ids(take(store, limit=5)) == ["b"]
    apply(store, get(store, "a"), Release())
    assert ids(take(store, limit=5)) == ["a"]


def test_a_task_held_while_it_ran_is_left_alone_when_it_comes_back(store: Store) -> None:
    register(store)
    running = apply(store, started(store), Hold())
    apply(store, running, Interrupt())
    assert take(store) == []
    assert counts(store) == {"pending": 1}


def test_what_is_not_pending_is_left_alone(store: Store) -> None:
    register(store)
    apply(store, taken(store), Done())
    apply(store, started(store), Fail(Fault("Boom")))
    submit(store, new("cancelled"))
    control.cancel(store, "cancelled")
    taken(store)
    started(store)
    submit(store, new(delay=10))
    assert take(store, limit=10) == []


def test_paused_queues_are_left_alone(store: Store) -> None:
    register(store)
    submit(store, new("a", queue="paused"), new("b", queue="open"))
    store.set_queue("paused", paused=True)
    assert ids(take(store, queues=["paused", "open"], limit=5)) == ["b"]
    store.set_queue("paused", paused=False)
    assert ids(take(store, queues=["paused", "open"], limit=5)) == ["a"]


def test_a_full_queue_is_left_alone_and_the_next_one_is_not(store: Store) -> None:
    register(store)
    store.set_queue("small", limit=2)
    small = fill(store, 5, queue="small")
    large = fill(store, 5, queue="large")
    assert ids(take(store, queues=["small", "large"], limit=4)) == small[:2] + large[:2]
    assert ids(take(store, queues=["small", "large"], limit=4)) == large[2:]


def test_reserved_and_started_tasks_of_all_workers_fill_a_queue(store: Store) -> None:
    register(store, "one")
    register(store, "two")
    store.set_queue("q", limit=2)
    fill(store, 4)
    first = apply(store, take_one(store, "one"), Start())
    take_one(store, "two")
    assert take(store, "two", limit=3) == []
    apply(store, first, Done())
    assert len(take(store, "two", limit=3)) == 1


@pytest.mark.parametrize(
    "how", [Done(), Fail(Fault("Boom")), Interrupt(), Snooze(5)], ids=lambda how: type(how).__name__
)
def test_every_ending_makes_room_in_a_full_queue(
    store: Store, how: Done | Fail | Interrupt | Snooze
) -> None:
    register(store)
    store.set_queue("q", limit=1)
    running = started(store)
    fill(store, 2)
    assert take(store, limit=5) == []
    apply(store, running, how)
    assert len(take(store, limit=5)) == 1
    assert take(store, limit=5) == []


def test_a_limit_below_what_runs_lets_nothing_in_until_there_is_room(store: Store) -> None:
    register(store)
    fill(store, 6)
    running = take(store, limit=3)
    store.set_queue("q", limit=2)
    assert take(store) == []
    apply(store, running[0], Done())
    assert take(store) == []
    apply(store, running[1], Done())
    assert len(take(store, limit=5)) == 1


def test_a_limit_of_none_or_a_higher_one_opens_the_queue(store: Store) -> None:
    register(store)
    fill(store, 10)
    store.set_queue("q", limit=0)
    assert take(store, limit=10) == []
    store.set_queue("q", limit=3)
    assert len(take(store, limit=10)) == 3
    store.set_queue("q", limit=5)
    assert len(take(store, limit=10)) == 2
    store.set_queue("q", limit=None)
    assert len(take(store, limit=10)) == 5


def test_held_tasks_do_not_hide_what_stands_behind_them(store: Store) -> None:
    register(store)
    fill(store, 1200, held=True)
    last = fill(store, 1)
    assert ids(take(store)) == last


class TestHandles:
    """A worker is given only what it can run."""

    @pytest.fixture(autouse=True)
    def _tasks(self, store: Store) -> None:
        register(store)
        submit(
            store,
            new("plain"),
            new("encode", name="video.encode"),
            new("Encode", name="Video.encode"),
            new("train", name="model.train_1"),
            new("ffmpeg", command=("ffmpeg", "-i", "video.encode")),
            new("sh", command=("/bin/sh", "-c", "ffmpeg")),
        )

    @pytest.mark.parametrize(
        ("handles", "expected"),
        [
            (EVERYTHING, "plain encode Encode train ffmpeg sh"),
            (Handles(), ""),
            (Handles(plain=True), "plain"),
            (Handles(names=("*",)), "encode Encode train"),
            (Handles(programs=("*",)), "ffmpeg sh"),
            (Handles(names=("video.encode",)), "encode"),
            (Handles(names=("video.*",)), "encode"),
            (Handles(names=("video",)), ""),
            (Handles(names=("*.encode", "model.*")), "encode Encode train"),
            (Handles(names=("model.train?1",)), "train"),
            (Handles(names=("model.train_?",)), "train"),
            (Handles(names=("model?train_12",)), ""),
            (Handles(names=("video_encode", "model.train%")), ""),
            (Handles(names=("[Vv]ideo.encode",)), "encode Encode"),
            (Handles(names=("[a-m]odel.*",)), "train"),
            (Handles(names=("videoXencode",)), ""),
            (Handles(names=("",)), ""),
            (Handles(programs=("ffmpeg",)), "ffmpeg"),
            (Handles(programs=("/bin/*",)), "sh"),
            (Handles(names=("ffmpeg",), programs=("video.encode",)), ""),
            (Handles(plain=True, names=("model.*",), programs=("ff*",)), "plain train ffmpeg"),
        ],
        ids=str,
    )
    def test_say_what_is_given(self, store: Store, handles: Handles, expected: str) -> None:
        assert ids(take(store, limit=10, handles=handles)) == expected.split()

    def test_what_one_cannot_run_is_there_for_another(self, store: Store) -> None:
        take(store, limit=10, handles=Handles(plain=True))
        register(store, "other")
        assert len(take(store, "other", limit=10)) == 5

    def test_do_not_change_the_order(self, store: Store, clock: Clock) -> None:
        clock.advance(1)
        submit(store, new("urgent", name="video.cut", priority=1), new("late", command=("ffplay",)))
        handles = Handles(plain=True, names=("video.*",), programs=("ff*",))
        expected = ["urgent", "plain", "encode", "ffmpeg", "late"]
        assert ids(take(store, limit=10, handles=handles)) == expected

    def test_many_tasks_of_others_do_not_hide_ones_own(self, store: Store) -> None:
        fill(store, 1200, name="video.encode")
        [own] = fill(store, 1, name="sound.mix")
        assert ids(take(store, handles=Handles(names=("sound.*",)))) == [own]

    def test_many_kinds_do_not_hide_ones_own(self, store: Store) -> None:
        submit(store, *(new(name=f"kind-{number}") for number in range(300)))
        [own] = fill(store, 1, name="sound.mix")
        assert ids(take(store, handles=Handles(names=("sound.*",)))) == [own]


def test_a_queue_that_is_not_there_gives_nothing(store: Store) -> None:
    register(store)
    assert take(store, queues=["never", "heard"]) == []
    assert store.queues() == []
    assert take(store, queues=[]) == []


def test_open_orders_come_with_the_task(store: Store) -> None:
    register(store)
    running = apply(store, started(store), Ask("set", {"timeout": 60}))
    store.commit([bare(running, "pending", ending="interrupted")])
    again = take_one(store)
    assert again.orders == (Order(1, "set", {"timeout": 60}),)
    assert again.last_order == 1


def test_a_worker_that_never_beat_gets_nothing(store: Store) -> None:
    fill(store, 1)
    with pytest.raises(LeaseLost):
        take(store, "stranger")
    assert counts(store) == {"pending": 1}
    assert store.workers() == []


def test_a_declared_lost_worker_gets_nothing(store: Store) -> None:
    register(store, "judge")
    register(store, "w")
    taken(store, "w")
    fill(store, 1)
    store.declare_lost("judge", {"w": 1})
    with pytest.raises(LeaseLost):
        take(store, "w")
    assert counts(store) == {"pending": 1, "reserved": 1}


def test_a_stale_worker_that_nobody_declared_lost_still_gets_tasks(
    store: Store, clock: Clock
) -> None:
    register(store, lease=10)
    names = fill(store, 1)
    clock.advance(1000)
    assert ids(take(store)) == names


def test_counts_follow(store: Store) -> None:
    register(store)
    fill(store, 3, queue="a")
    fill(store, 3, queue="b")
    take(store, queues=["a", "b"], limit=4)
    assert counts(store, "a") == {"reserved": 3}
    assert counts(store, "b") == {"pending": 2, "reserved": 1}
    check_counts(store)
    assert happened(store.watch(0, 0, 100)).count("reserved") == 4


def test_a_worker_that_drains_gets_nothing_but_may_finish(store: Store) -> None:
    submit(store, new("first"), new("second"))
    register(store, draining=False)
    [first] = take(store)
    beat(store, worker(draining=True), 2)
    assert take(store) == []
    [done] = store.commit([decide(first, Start(1))])
    assert done is not None
    applied, given = store.turn("w", [decide(done, Done("end"))], ["q"], 1, EVERYTHING)
    assert (applied, given) == ([True], [])
    beat(store, worker(draining=False), 3)
    assert [task.id for task in take(store)] == ["second"]
