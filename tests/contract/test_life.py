"""Store.setup, close and now; and what holds for every operation: threads, forks, the clock."""

from __future__ import annotations

import time
from collections import Counter

from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.store import Store
from stayer.stores import open_store
from tests.contract import actors
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    counts,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)


def test_setting_up_again_harms_nothing(store: Store, other: Store) -> None:
    register(store)
    task = started(store)
    fill(store, 2)
    for each in (store, other, store):
        each.setup()
    assert get(store, task.id) == task
    assert counts(store) == {"started": 1, "pending": 2}
    assert apply(store, task, Done()).state == "complete"


def test_a_store_knows_itself_by_whatever_way(store: Store, other: Store) -> None:
    name = store.identity()
    assert name
    store.setup()
    fill(store, 1)
    assert {store.identity(), other.identity()} == {name}
    store.close()
    assert store.identity() == name


def test_a_closed_store_opens_itself_again(store: Store) -> None:
    register(store)
    names = fill(store, 1)
    store.close()
    store.close()
    assert ids(take(store)) == names
    store.close()
    assert counts(store) == {"reserved": 1}


def test_what_was_accepted_outlives_the_store_that_took_it(url: str, clock: Clock) -> None:
    first = open_store(url, clock=clock)
    first.setup()
    [task] = submit(first, new("a", parameters=b"bytes"))
    first.close()
    second = open_store(url, clock=clock)
    second.setup()
    assert get(second, "a") == task
    second.close()


def test_the_url_leads_back_to_the_store(store: Store, clock: Clock) -> None:
    fill(store, 1)
    again = open_store(store.url, clock=clock)
    assert counts(again) == {"pending": 1}
    again.close()


def test_the_clock_is_the_one_that_was_given(store: Store, clock: Clock) -> None:
    assert store.now() == clock.now
    clock.advance(0.25)
    assert store.now() == clock.now


def test_without_one_the_clock_tells_epoch_seconds(timely: Store) -> None:
    first, second = timely.now(), timely.now()
    assert first <= second
    assert abs(first - time.time()) < 86400
    [task] = submit(timely, new())
    assert second <= task.created <= timely.now()


def test_times_are_floats(store: Store) -> None:
    register(store)
    [submitted] = submit(store, new("a"))
    reserved = take_one(store)
    running = apply(store, reserved, Start())
    done = apply(store, running, Done())
    for task in (submitted, reserved, running, done, get(store, "a")):
        times = (task.created, task.updated, task.started_at, task.finished_at)
        assert {type(time) for time in times} <= {float, type(None)}


def test_several_threads_may_use_one_store(store: Store) -> None:
    # Given four threads that share a store
    names = fill(store, 80)
    for number in range(4):
        register(store, f"w{number}")

    def work(name: str) -> list[str]:
        done = []
        while tasks := take(store, name, limit=3):
            fill(store, 1, queue="made by threads")
            store.get(names[:5])
            applied = store.commit([decide(task, Done(name)) for task in tasks])
            assert None not in applied
            done += ids(tasks)
        return done

    # When they all work at once
    results = [in_thread(lambda name=f"w{number}": work(name)) for number in range(4)]  # type: ignore[misc]
    done = [id for result in results for id in result()]

    # Then each task was done once
    assert Counter(done) == Counter(names)
    assert counts(store) == {"complete": 80}
    check_counts(store)


def test_threads_that_come_and_go_leave_a_store_that_works(store: Store) -> None:
    register(store)
    for _ in range(30):
        assert len(in_thread(lambda: fill(store, 1))()) == 1
    assert len(take(store, limit=100)) == 30


def test_a_store_may_be_used_after_a_fork(timely: Store, url: str) -> None:
    [answer] = actors.together(actors.fork_and_submit, [(url, 20)])
    assert answer == [0, 0, 0]
    assert counts(timely, "forked") == {"pending": 80}
    check_counts(timely)


def test_many_may_set_up_an_empty_store_at_once(url: str) -> None:
    answers = actors.together(actors.set_up_and_submit, [(url, f"t{n}") for n in range(6)])
    assert answers == [True] * 6
    store = open_store(url)
    assert counts(store) == {"pending": 6}
    store.close()


def test_a_task_may_be_handed_from_store_to_store(store: Store, other: Store) -> None:
    register(store)
    task = taken(store)
    assert apply(other, task, Done("elsewhere")).result == "elsewhere"
    assert get(store, task.id).result == "elsewhere"
