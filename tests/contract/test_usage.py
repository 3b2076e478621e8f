"""What reports say of an attempt's usage and pauses, and who watches."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Done, Interrupt, Set, Start
from stayer.core.insight.usage_series import POINTS
from stayer.core.model import Policy, Report, Usage
from stayer.store import Store
from tests.contract.builders import (
    PATIENCE,
    Clock,
    apply,
    beat,
    get,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
    worker,
)

SOME = Usage(ran=12.5, cpu=3.25, rss=1000, peak=2000, read=5, written=2**40, processes=3)


def used(ran: float, cpu: float = 0.0) -> Usage:
    return Usage(ran=ran, cpu=cpu)


class TestUsage:
    def test_is_the_tasks_newest_and_a_point_of_the_attempts_series(
        self, store: Store, clock: Clock
    ) -> None:
        register(store)
        task = started(store)
        clock.advance(3)
        beat(store, "w", 2, Report(id=task.id, attempt=1, usage=SOME))
        assert get(store, task.id).usage == replace(SOME, at=clock.now)
        assert store.usage(task.id, 1) == [replace(SOME, at=clock.now)]
        assert store.attempts(task.id)[0].usage == replace(SOME, at=clock.now)

    def test_comes_in_order_however_it_arrived(self, store: Store) -> None:
        register(store)
        task = started(store)
        for number, ran in enumerate((1.0, 100.0, 21.0, 9.0), 2):
            beat(store, "w", number, Report(id=task.id, attempt=1, usage=used(ran)))
        assert [point.ran for point in store.usage(task.id, 1)] == [1.0, 9.0, 21.0, 100.0]

    def test_has_one_point_a_slot_the_newest(self, store: Store) -> None:
        register(store)
        task = started(store)
        for number, (ran, cpu) in enumerate(((5.0, 1.0), (6.5, 2.0), (9.9, 3.0), (10.0, 4.0)), 2):
            beat(store, "w", number, Report(id=task.id, attempt=1, usage=used(ran, cpu)))
        assert [(point.ran, point.cpu) for point in store.usage(task.id, 1)] == [
            (9.9, 3.0),
            (10.0, 4.0),
        ]

    def test_stays_short_and_spans_the_whole_attempt(self, store: Store) -> None:
        register(store)
        task = started(store)
        number = 1
        for ran in range(0, 5 * POINTS * 4, 5):
            number += 1
            beat(store, "w", number, Report(id=task.id, attempt=1, usage=used(float(ran))))
        points = [point.ran for point in store.usage(task.id, 1)]
        assert POINTS / 2 <= len(points) <= POINTS
        assert points[-1] == 5 * POINTS * 4 - 5
        steps = {after - before for before, after in pairwise(points)}
        assert max(steps) <= 2 * 20.0, "about evenly over its whole life"

    def test_belongs_to_an_attempt(self, store: Store) -> None:
        register(store)
        task = started(store)
        beat(store, "w", 2, Report(id=task.id, attempt=1, usage=used(7.0)))
        again = apply(store, get(store, task.id), Interrupt())
        assert again.usage is None
        second = take_one(store)
        beat(store, "w", 3, Report(id=task.id, attempt=2, usage=used(1.0)))
        assert [point.ran for point in store.usage(task.id, 1)] == [7.0]
        assert [point.ran for point in store.usage(second.id, 2)] == [1.0]
        assert [attempt.usage.ran for attempt in store.attempts(task.id) if attempt.usage] == [
            7.0, 1.0,
        ]  # fmt: skip

    def test_stays_with_a_finished_task(self, store: Store) -> None:
        register(store)
        task = started(store)
        beat(store, "w", 2, Report(id=task.id, attempt=1, usage=used(7.0)))
        done = apply(store, get(store, task.id), Done(1))
        assert done.usage is not None
        assert done.usage.ran == 7.0

    def test_of_others_is_dropped(self, store: Store) -> None:
        register(store, "w")
        register(store, "v")
        task = started(store)
        beat(store, "v", 2, Report(id=task.id, attempt=1, usage=SOME, paused=True))
        beat(store, "w", 2, Report(id=task.id, attempt=9, usage=SOME, paused=True))
        assert (get(store, task.id).usage, get(store, task.id).paused) == (None, False)
        assert store.usage(task.id, 1) == store.usage(task.id, 9) == []

    def test_goes_with_the_task(self, store: Store) -> None:
        register(store)
        task = started(store)
        beat(store, "w", 2, Report(id=task.id, attempt=1, usage=SOME))
        apply(store, get(store, task.id), Done())
        store.purge([task.id], ("complete",), float("inf"), 1)
        assert store.usage(task.id, 1) == []

    def test_of_nothing_is_nothing(self, store: Store) -> None:
        assert store.usage("nobody", 1) == []


class TestPaused:
    def test_follows_the_reports(self, store: Store) -> None:
        register(store)
        task = started(store)
        assert get(store, task.id).paused is False
        beat(store, "w", 2, Report(id=task.id, attempt=1, paused=True))
        assert get(store, task.id).paused is True
        beat(store, "w", 3, Report(id=task.id, attempt=1, usage=SOME))
        assert get(store, task.id).paused is True, "nothing was said of it"
        beat(store, "w", 4, Report(id=task.id, attempt=1, paused=False))
        assert get(store, task.id).paused is False

    @pytest.mark.parametrize("happening", [Interrupt(), Done()], ids=["handed back", "done"])
    def test_ends_with_the_attempt(self, store: Store, happening: Interrupt | Done) -> None:
        register(store)
        task = started(store)
        beat(store, "w", 2, Report(id=task.id, attempt=1, paused=True))
        assert apply(store, get(store, task.id), happening).paused is False

    def test_is_nothing_before_the_start(self, store: Store) -> None:
        register(store)
        task = taken(store)
        beat(store, "w", 2, Report(id=task.id, attempt=1, paused=True))
        assert get(store, task.id).paused is False
        assert apply(store, task, Start(1)).paused is False


class TestWatched:
    def test_is_said_by_the_beat_for_so_long(self, store: Store, clock: Clock) -> None:
        register(store, "w")
        register(store, "v")
        assert beat(store, "w", 2).watched is False
        store.attend(["w", "nobody"], 10.0)
        assert beat(store, "w", 3).watched is True
        assert beat(store, "v", 2).watched is False
        clock.advance(9)
        assert beat(store, "w", 4).watched is True
        clock.advance(2)
        assert beat(store, "w", 5).watched is False

    def test_is_never_cut_short(self, store: Store, clock: Clock) -> None:
        register(store)
        store.attend(["w"], 60.0)
        store.attend(["w"], 1.0)
        clock.advance(30)
        assert beat(store, "w", 2).watched is True

    def test_wakes_the_worker_once(self, store: Store, other: Store) -> None:
        register(store)
        waiter = store.waiter("w", ())
        try:
            other.attend(["w"], 60.0)
            assert waiter.wait(PATIENCE)
            other.attend(["w"], 60.0)
            assert not waiter.wait(0.2), "it knows already"
        finally:
            waiter.close()

    def test_wakes_one_that_sleeps(self, timely: Store) -> None:
        register(timely)
        woken: list[bool] = []
        waiter = timely.waiter("w", ["q"])
        sleeper = threading.Thread(target=lambda: woken.append(waiter.wait(PATIENCE)))
        sleeper.start()
        timely.attend(["w"], 5.0)
        sleeper.join()
        waiter.close()
        assert woken == [True]


class TestAWorkerThatKeeps:
    def test_is_never_suspected(self, store: Store, clock: Clock) -> None:
        register(store, "w", keeps=True)
        register(store, "v")
        clock.advance(1000)
        answer = beat(store, "judge", 1)
        assert [suspect.worker for suspect in answer.suspects] == ["v"]
        assert {known.id: known.keeps for known in store.workers()} == {
            "w": True, "v": False, "judge": False,
        }  # fmt: skip

    def test_may_say_otherwise_later(self, store: Store, clock: Clock) -> None:
        register(store, "w", keeps=True)
        beat(store, worker("w"), 2)
        clock.advance(1000)
        assert [suspect.worker for suspect in beat(store, "judge", 1).suspects] == ["w"]

    def test_is_still_dropped_on_somebodys_word(self, store: Store, clock: Clock) -> None:
        register(store, "w", keeps=True)
        task = started(store)
        clock.advance(1000)
        assert [held.id for held in store.drop_worker("w")] == [task.id]


class TestSet:
    def test_moves_a_waiting_task_in_the_line(self, store: Store) -> None:
        register(store)
        first, second, third = submit(store, new(), new(), new())
        apply(store, third, Set(priority=5))
        apply(store, first, Set(priority=-5))
        assert [task.id for task in take(store, limit=3)] == [third.id, second.id, first.id]

    def test_changes_what_was_decided(self, store: Store) -> None:
        register(store)
        [task] = submit(store, new(policy=Policy(retries=2)))
        wanted = Policy(retries=2, time_limit=60.0, memory_limit=10**9, fence="kill")
        changed = apply(store, task, Set(policy=wanted))
        assert changed.policy == get(store, task.id).policy == wanted
        assert take_one(store).policy == wanted

    def test_tells_the_running_one(self, store: Store) -> None:
        register(store)
        task = started(store)
        wanted = Policy(time_limit=60.0)
        changed = apply(store, task, Set(policy=wanted, limits={"time": 60.0}))
        assert changed.policy == wanted
        [orders] = beat(store, "w", 2).orders
        assert [(order.verb, order.arguments) for order in orders.orders] == [
            ("set", {"time": 60.0})
        ]

    def test_is_written_down(self, store: Store) -> None:
        [task] = submit(store, new())
        apply(store, task, Set(priority=1))
        assert [event.event for event in store.events(task.id)] == ["pending", "set"]
