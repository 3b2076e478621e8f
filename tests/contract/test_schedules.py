"""Schedules in the store: kept, changed, fired once."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from stayer.core.errors import Refused
from stayer.core.model import Policy, Value
from stayer.core.schedules import parse
from stayer.core.schedules.model import Firing, Schedule
from stayer.service.control import schedules
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import (
    PATIENCE,
    VALUES,
    Clock,
    counts,
    get,
    in_thread,
    new,
    submit,
)


def schedule(name: str = "s", **fields: object) -> Schedule:
    fields.setdefault("task", new("-", parameters={"n": 1}))
    return Schedule(name=name, cron="*/5 * * * *", **fields)  # type: ignore[arg-type]


def firing(seen: Schedule, **becomes: object) -> Firing:
    """A step of five minutes."""
    last = (seen.last or 0) + 300
    step = Firing(
        name=seen.name, updated=seen.updated, seen=seen.last, last=last, next=last + 300,
        tasks=(new(f"{seen.name}@{last:.0f}"),),
    )  # fmt: skip
    return replace(step, **becomes)


def test_there_are_none_at_first(store: Store) -> None:
    assert store.schedules() == []
    assert store.schedules(["s"]) == []
    assert store.due_schedules(10) == []
    assert not store.drop_schedule("s")


def test_a_schedule_comes_back_as_it_was_put(store: Store, clock: Clock) -> None:
    task = new(
        "-", command=("sh", "-c", "true"), cwd="/tmp", env={"A": "b"}, priority=3, owner="ann",
        tags=("x", "y"), expire=5.0, policy=Policy(retries=2, time_limit=1.5),
    )  # fmt: skip
    wanted = schedule(
        task=task, zone="Europe/Berlin", overlap="cancel", catch_up="all", jitter=2.5,
        origin="/etc/stayer.toml", next=clock.now + 7,
    )  # fmt: skip
    kept = replace(wanted, created=clock.now, updated=clock.now, last=clock.now)
    assert store.put_schedule(wanted) == kept
    assert store.schedules() == store.schedules(["s", "t"]) == [kept]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_parameters_of_its_task_come_back(store: Store, value: Value) -> None:
    kept = store.put_schedule(schedule(task=new("-", parameters=value)))
    assert (kept.task.parameters, type(kept.task.parameters)) == (value, type(value))


def test_they_are_listed_by_name(store: Store) -> None:
    for name in ("b", "c", "a"):
        store.put_schedule(schedule(name))
    assert [each.name for each in store.schedules()] == ["a", "b", "c"]
    assert [each.name for each in store.schedules(["c", "a", "none"])] == ["a", "c"]


def test_promote_answers_when_the_next_one_is_due(store: Store, clock: Clock) -> None:
    store.put_schedule(schedule("late", next=clock.now + 50))
    store.put_schedule(schedule("early", next=clock.now + 20))
    store.put_schedule(schedule("never", next=None))
    store.put_schedule(schedule("paused", next=clock.now + 10, paused=True))
    submit(store, new(delay=30))
    assert store.promote(10) == clock.now + 20
    clock.advance(20)
    assert [each.name for each in store.due_schedules(10)] == ["early"]
    assert store.promote(10) == clock.now
    clock.advance(100)
    assert [each.name for each in store.due_schedules(10)] == ["early", "late"]
    assert [each.name for each in store.due_schedules(1)] == ["early"]


def test_firing_submits_and_moves_on(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    step = firing(seen)
    assert store.fire(step)
    [after] = store.schedules()
    assert after == replace(seen, last=step.last, next=step.next, last_task=step.tasks[0].id)
    assert get(store, step.tasks[0].id).state == "pending"
    assert store.due_schedules(10) == []


def test_the_same_firing_again_does_nothing(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    assert store.fire(firing(seen))
    assert not store.fire(firing(seen, tasks=(new("other"),)))
    assert store.get(["other"]) == [None]
    assert counts(store) == {"pending": 1}


def test_a_firing_of_what_it_was_before_a_change_does_nothing(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    clock.advance(1)
    store.put_schedule(schedule(next=clock.now, overlap="queue"))
    assert not store.fire(firing(seen))
    assert store.schedules()[0].last_task is None
    store.drop_schedule("s")
    assert not store.fire(firing(seen))
    assert store.schedules() == []


def test_a_tick_without_a_task_keeps_the_newest(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    store.fire(firing(seen))
    [after] = store.schedules()
    assert store.fire(firing(after, tasks=(), next=None))
    [last] = store.schedules()
    assert (last.last_task, last.next) == (after.last_task, None)
    assert store.promote(10) is None


def test_several_ticks_at_once(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    tasks = (new("one"), new("two", delay=5), new("three"))
    assert store.fire(firing(seen, tasks=tasks))
    assert [get(store, task.id).state for task in tasks] == ["pending", "scheduled", "pending"]
    assert store.schedules()[0].last_task == "three"


def test_a_task_that_is_there_is_not_accepted_again(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    submit(store, new("there", priority=7))
    assert store.fire(firing(seen, tasks=(new("there"),)))
    assert get(store, "there").priority == 7
    assert store.schedules()[0].last_task == "there"


def test_a_change_of_what_it_was_before_another_is_refused(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    clock.advance(1)
    paused = store.put_schedule(replace(seen, paused=True), seen.updated)
    with pytest.raises(Refused, match="meanwhile"):
        store.put_schedule(replace(seen, jitter=5.0), seen.updated)
    assert store.schedules() == [paused]
    with pytest.raises(Refused, match="meanwhile"):
        store.put_schedule(replace(seen, task=new("-", queue="elsewhere")), seen.updated)
    assert store.schedules() == [paused]
    store.drop_schedule("s")
    with pytest.raises(Refused, match="meanwhile"):
        store.put_schedule(paused, paused.updated)
    assert store.schedules() == []


def test_a_pause_is_not_lost_to_another_change(
    store: Store, other: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.add(store, schedule())
    check = parse.check_schedule

    def checked_as_somebody_pauses(wanted: Schedule, now: float) -> Schedule:
        monkeypatch.setattr(parse, "check_schedule", check)
        clock.advance(1)
        schedules.pause(other, "s")
        return check(wanted, now)

    monkeypatch.setattr(parse, "check_schedule", checked_as_somebody_pauses)
    changed = schedules.change(store, "s", jitter=5.0)
    assert (changed.paused, changed.jitter) == (True, 5.0)


def test_a_change_keeps_what_was_fired(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    store.fire(firing(seen))
    [before] = store.schedules()
    clock.advance(10)
    after = store.put_schedule(schedule(next=clock.now + 5, overlap="queue", origin="file"))
    assert (after.last, after.last_task) == (before.last, before.last_task)
    assert (after.created, after.updated) == (before.created, clock.now)
    assert (after.overlap, after.origin, after.next) == ("queue", "file", clock.now + 5)


def test_another_queue_keeps_what_was_fired(store: Store, clock: Clock) -> None:
    first = store.put_schedule(schedule())
    clock.advance(300)
    store.fire(firing(first))
    [fired] = store.schedules()
    clock.advance(10)
    moved = store.put_schedule(schedule(task=new("-", "r")), fired.updated)
    assert (moved.last, moved.last_task) == (fired.last, fired.last_task)
    assert (moved.created, moved.updated) == (first.created, clock.now)
    assert store.schedules() == [moved]
    assert store.fire(firing(moved, tasks=(new("next", "r"),)))
    clock.advance(10)
    back = store.put_schedule(schedule(task=new("-", "q")))
    assert (back.last, back.last_task, back.created) == (
        (moved.last or 0) + 300,
        "next",
        first.created,
    )


def test_another_queue_after_a_pause_begins_to_count_anew(store: Store, clock: Clock) -> None:
    store.put_schedule(schedule(paused=True))
    clock.advance(300)
    assert store.put_schedule(schedule(task=new("-", "r"))).last == clock.now


@pytest.mark.parametrize("change", [{"cron": "1 * * * *"}, {"zone": "Asia/Tokyo"}], ids=str)
def test_with_other_times_it_begins_to_count_anew(
    store: Store, clock: Clock, change: dict[str, str]
) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    clock.advance(10)
    after = store.put_schedule(replace(seen, **change))
    assert after.last == clock.now


def test_after_a_pause_it_begins_to_count_anew(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    clock.advance(10)
    paused = store.put_schedule(replace(seen, paused=True))
    assert paused.last == seen.last
    assert store.due_schedules(10) == []
    assert store.promote(10) is None
    clock.advance(10)
    resumed = store.put_schedule(replace(paused, paused=False))
    assert (resumed.last, resumed.paused) == (clock.now, False)


def test_a_new_schedule_wakes_those_who_listen_to_its_queue(store: Store) -> None:
    waiter = store.waiter(None, ["q"])
    other = store.waiter(None, ["other"])
    try:
        store.put_schedule(schedule())
        assert waiter.wait(PATIENCE)
        assert not other.wait(0.05)
    finally:
        waiter.close()
        other.close()


def test_what_it_fires_wakes_them_too(store: Store, clock: Clock) -> None:
    seen = store.put_schedule(schedule(next=clock.now))
    waiter = store.waiter(None, ["q"])
    try:
        store.fire(firing(seen))
        assert waiter.wait(PATIENCE)
    finally:
        waiter.close()


def test_of_many_who_fire_at_once_one_does(url: str, store: Store, clock: Clock) -> None:
    number = 4
    store.put_schedule(schedule(next=clock.now))
    stores = [open_store(url, clock=clock) for _ in range(number)]
    barrier = threading.Barrier(number)

    def race(own: Store, name: str) -> int:
        won = 0
        for _ in range(20):
            [seen] = own.schedules()
            barrier.wait(PATIENCE)
            won += own.fire(firing(seen, tasks=(new(f"{name}-{seen.last}"),)))
            barrier.wait(PATIENCE)
        return won

    races = [in_thread(lambda own=own, n=n: race(own, f"w{n}")) for n, own in enumerate(stores)]  # type: ignore[misc]
    assert sum(result() for result in races) == 20
    assert counts(store) == {"pending": 20}
    for own in stores:
        own.close()
