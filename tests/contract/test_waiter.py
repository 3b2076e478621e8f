"""Store.waiter, Store.watch and Store.last_event: hearing of what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Ask, Done, Interrupt, Release, Retry
from stayer.core.model import FINISHED
from stayer.service.control import workers as worker_control
from stayer.store import Store, Waiter
from tests.contract.builders import (
    PATIENCE,
    Clock,
    apply,
    fill,
    get,
    happened,
    in_thread,
    new,
    register,
    started,
    submit,
    take,
    taken,
)


def calm(waiter: Waiter) -> None:
    """Until it has nothing more to say. It may wake for nothing, but not for ever."""
    for _ in range(100):
        if not waiter.wait(0.001):
            return
    raise AssertionError("it wakes again and again, though nothing happens")


@pytest.fixture
def waiter(store: Store) -> Iterator[Waiter]:
    register(store)
    waiter = store.waiter("w", ["q", "r"])
    yield waiter
    waiter.close()


def submitted(store: Store, clock: Clock) -> None:
    fill(store, 1)


def submitted_to_the_second_queue(store: Store, clock: Clock) -> None:
    fill(store, 1, queue="r")


def promoted(store: Store, clock: Clock) -> None:
    clock.advance(1000)
    store.promote(10)


def handed_back(store: Store, clock: Clock) -> None:
    apply(store, get(store, "taken"), Interrupt())


def lost(store: Store, clock: Clock) -> None:
    worker_control.return_lost_tasks(store, store.declare_lost("judge", {"dead": 1}))


def retried(store: Store, clock: Clock) -> None:
    apply(store, get(store, "ended"), Retry())


def released(store: Store, clock: Clock) -> None:
    apply(store, get(store, "held"), Release())


def ordered(store: Store, clock: Clock) -> None:
    apply(store, get(store, "running"), Ask("pause"))


def resumed(store: Store, clock: Clock) -> None:
    store.set_queue("q", paused=False)


def widened(store: Store, clock: Clock) -> None:
    store.set_queue("r", limit=2)


def made_room(store: Store, clock: Clock) -> None:
    apply(store, get(store, "filler"), Done())


def scheduled_after_another(store: Store, clock: Clock) -> None:
    """Whoever sleeps until the next task is due has to reckon with one that is due sooner."""
    apply(store, get(store, "upstream"), Done())
    store.promote(10)


WAKERS: list[Callable[[Store, Clock], None]] = [
    submitted,
    submitted_to_the_second_queue,
    promoted,
    handed_back,
    lost,
    retried,
    released,
    ordered,
    resumed,
    widened,
    made_room,
    scheduled_after_another,
]


@pytest.mark.parametrize("happens", WAKERS, ids=lambda happens: happens.__name__)
@pytest.mark.parametrize("by_another", [False, True], ids=["by oneself", "by another"])
def test_a_waiter_wakes_when_there_may_be_work_or_orders(
    store: Store,
    other: Store,
    clock: Clock,
    happens: Callable[[Store, Clock], None],
    by_another: bool,
) -> None:
    # Given something that everything in the list can happen to
    register(store, "w")
    register(store, "dead")
    register(store, "judge")
    taken(store, "w", id="taken")
    taken(store, "dead")
    apply(store, taken(store, "w", id="ended"), Done())
    started(store, "w", id="running")
    taken(store, "w", "r", id="filler")
    store.set_queue("r", limit=1)
    submit(store, new("held", held=True), new("scheduled", delay=100), new("more", queue="r"))
    if happens is scheduled_after_another:
        taken(store, "w", "elsewhere", id="upstream")
        submit(store, new("dependent", delay=50, after=("upstream",)))
    if happens is resumed:
        store.set_queue("q", paused=True)
        fill(store, 1)

    # When it happens while somebody waits
    waiter = store.waiter("w", ["q", "r"])
    calm(waiter)
    happens(other if by_another else store, clock)

    # Then the waiter hears of it, and of nothing more after that
    assert waiter.wait(PATIENCE)
    calm(waiter)
    waiter.close()


def test_a_waiter_sleeps_while_nothing_happens(waiter: Waiter) -> None:
    for _ in range(3):
        calm(waiter)


def test_a_waiter_with_no_time_does_not_sleep(waiter: Waiter, store: Store) -> None:
    calm(waiter)
    assert not waiter.wait(0)
    fill(store, 1)
    assert waiter.wait(0) or waiter.wait(PATIENCE)


def test_nothing_falls_between_the_making_and_the_waiting(waiter: Waiter, store: Store) -> None:
    fill(store, 1)
    take(store)
    assert waiter.wait(PATIENCE)


def test_nothing_falls_between_two_waits(waiter: Waiter, other: Store) -> None:
    for _ in range(20):
        calm(waiter)
        fill(other, 1)
        assert waiter.wait(PATIENCE)


def test_nothing_is_slept_through_when_a_queue_is_made_anew(store: Store, other: Store) -> None:
    waiter = store.waiter(None, ["q"])
    fill(store, 1)
    for number in range(1, 8):
        calm(waiter)
        other.drop_queue("q", 100)
        for _ in range(number):
            fill(other, 1)
        assert waiter.wait(PATIENCE)
    waiter.close()


def test_a_waiter_may_sleep_without_end(store: Store, other: Store) -> None:
    register(store)

    def wait() -> bool:
        waiter = store.waiter("w", ["q"])
        try:
            while not take(store):
                if not waiter.wait(None):
                    return False
            return True
        finally:
            waiter.close()

    woken = in_thread(wait)
    fill(other, 1)
    assert woken()


def test_a_waiter_may_be_nobodys(store: Store, other: Store) -> None:
    waiter = store.waiter(None, ["q"])
    calm(waiter)
    fill(other, 1)
    assert waiter.wait(PATIENCE)
    waiter.close()


def test_a_waiter_hears_of_a_queue_that_was_not_there(store: Store, other: Store) -> None:
    waiter = store.waiter(None, ["not yet"])
    calm(waiter)
    fill(other, 1, queue="not yet")
    assert waiter.wait(PATIENCE)
    waiter.close()


def test_a_waiter_hears_of_orders_whatever_the_queue(store: Store, other: Store) -> None:
    register(store)
    task = started(store, queue="no longer listened to")
    waiter = store.waiter("w", ["q"])
    calm(waiter)
    apply(other, task, Ask("pause"))
    assert waiter.wait(PATIENCE)
    waiter.close()


def test_several_waiters_hear_of_one_task(store: Store, other: Store) -> None:
    waiters = [each.waiter(None, ["q"]) for each in (store, store, other)]
    for waiter in waiters:
        calm(waiter)
    fill(store, 1)
    for waiter in waiters:
        assert waiter.wait(PATIENCE)
        waiter.close()


@pytest.mark.parametrize("early", [True, False], ids=["before it sleeps", "about when it sleeps"])
def test_a_waiter_can_be_rung_by_another_thread(store: Store, early: bool) -> None:
    # Given a thread that waits without end for a task that does not come
    made: SimpleQueue[Waiter] = SimpleQueue()
    go: SimpleQueue[None] = SimpleQueue()

    def wait() -> None:
        waiter = store.waiter(None, ["q"])
        calm(waiter)
        made.put(waiter)
        if early:
            go.get()
        waiter.wait(None)
        waiter.close()

    woken = in_thread(wait)

    # When another thread rings
    made.get().ring()
    go.put(None)

    # Then it wakes
    woken()


def test_a_store_outlives_its_waiters(store: Store) -> None:
    for _ in range(50):
        store.waiter("w", ["q"]).close()
    fill(store, 1)


class TestWatching:
    def test_an_empty_store_shows_nothing(self, store: Store) -> None:
        assert store.last_event() == 0
        assert store.watch(0, 0, 10) == []

    def test_shows_what_came_after_a_number(self, store: Store, clock: Clock) -> None:
        register(store)
        submit(store, new("a"))
        before = store.last_event()
        clock.advance(2)
        running = started(store, queue="other", id="b")
        events = store.watch(before, 0, 10)
        assert [(event.id, event.event, event.queue) for event in events] == [
            ("b", "pending", "other"),
            ("b", "reserved", "other"),
            ("b", "started", "other"),
        ]
        assert {event.at for event in events} == {clock.now}
        # Numbers tell the order; a store may number what it shows to watchers by another count.
        history = [replace(event, number=0) for event in store.events(running.id)]
        assert [replace(event, number=0) for event in events] == history
        assert store.last_event() == events[-1].number
        assert store.watch(store.last_event(), 0, 10) == []

    def test_shows_no_more_than_the_limit_and_goes_on_from_there(self, store: Store) -> None:
        names = fill(store, 5)
        first = store.watch(0, 0, 2)
        second = store.watch(first[-1].number, 0, 2)
        third = store.watch(second[-1].number, 0, 2)
        assert [event.id for event in (*first, *second, *third)] == names

    def test_shows_what_happened_to_a_queue(self, store: Store, clock: Clock) -> None:
        store.set_queue("q", paused=True)
        store.set_queue("q", paused=False)
        store.set_queue("q", limit=3)
        events = store.watch(0, 0, 10)
        assert happened(events) == ["paused", "resumed", "limited"]
        assert {(event.id, event.queue, event.at) for event in events} == {("", "q", clock.now)}

    def test_numbers_grow(self, store: Store, other: Store) -> None:
        for each in (store, other, store):
            fill(each, 3)
        numbers = [event.number for event in store.watch(0, 0, 100)]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 9
        assert numbers[0] > 0

    def test_numbers_do_not_come_again_after_a_purge(self, store: Store, clock: Clock) -> None:
        register(store)
        apply(store, taken(store), Done())
        seen = store.last_event()
        clock.advance(1)
        assert len(store.purge(None, FINISHED, clock.now, 10)) == 1
        [name] = fill(store, 1)
        last = store.watch(seen, 0, 10)[-1]
        assert (last.id, last.event) == (name, "pending")
        assert store.last_event() == last.number > seen

    def test_numbers_do_not_come_again_after_the_last_trace_is_gone(
        self, store: Store, clock: Clock
    ) -> None:
        register(store)
        apply(store, taken(store), Done())
        store.purge(None, FINISHED, clock.advance(1), 10)
        seen = store.last_event()
        for _ in range(3):
            store.purge(None, FINISHED, clock.advance(10 * 86400), 10)
        [name] = fill(store, 1)
        assert [event.id for event in store.watch(seen, 0, 10)] == [name]

    @pytest.mark.parametrize("how", ["purged", "dropped"])
    def test_shows_that_a_task_is_gone(self, store: Store, clock: Clock, how: str) -> None:
        register(store)
        task = apply(store, taken(store), Done())
        before = store.last_event()
        clock.advance(1)
        if how == "purged":
            store.purge(None, FINISHED, clock.now, 10)
        else:
            store.drop_queue("q", 10)
        [event] = store.watch(before, 0, 10)
        assert (event.id, event.queue, event.event) == (task.id, "q", "deleted")
        assert store.watch(0, 0, 10) == [event]

    def test_shows_when_a_task_was_deleted(self, store: Store, clock: Clock) -> None:
        fill(store, 1)
        clock.advance(1)
        store.drop_queue("q", 10)
        [event] = store.watch(0, 0, 10)
        assert (event.event, event.at) == ("deleted", clock.now)

    def test_waits_for_the_first_event(self, store: Store, other: Store) -> None:
        fill(store, 1)
        since = store.last_event()
        seen = in_thread(lambda: store.watch(since, 10 * PATIENCE, 10))
        names = fill(other, 1)
        assert [event.id for event in seen()] == names

    def test_does_not_wait_when_there_is_something(self, store: Store) -> None:
        fill(store, 1)
        seen = in_thread(lambda: store.watch(0, 10 * PATIENCE, 10))
        assert happened(seen()) == ["pending"]
