"""What time brings, on every store: ticks fire once whoever looks, and overlaps are kept."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Done
from stayer.core.model import FINISHED, Filter, Task
from stayer.core.schedules import cron, parse
from stayer.core.schedules.model import CatchUp, Overlap, Schedule
from stayer.service.control import edits as edit_control
from stayer.service.control import schedules
from stayer.service.control import tasks as control
from stayer.service.upkeep import due_work as time_brings
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import PATIENCE, Clock, apply, counts, in_thread, new, register, take

MINUTE, DAY = 60.0, 86400.0
START = datetime(2025, 10, 26, 0, 0, tzinfo=UTC).timestamp()


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


def put(store: Store, expression: str = "*/5 * * * *", **fields: object) -> Schedule:
    fields.setdefault("task", new("-"))
    wanted = Schedule(name="s", cron=expression, **fields)  # type: ignore[arg-type]
    return store.put_schedule(parse.check_schedule(wanted, store.now()))


def fired(store: Store) -> list[str]:
    """The ticks, oldest first."""
    found = control.find_all(store, Filter(queues=("q",)))
    return sorted(task.id.removeprefix("s@") for task in found)


def last(store: Store) -> Task:
    [task] = store.get([schedules.get(store, "s").last_task or ""])
    assert task is not None
    return task


def test_a_tick_brings_a_task_and_tells_when_the_next_one_comes(store: Store, clock: Clock) -> None:
    put(store)
    assert time_brings.elapse(store) == START + 5 * MINUTE
    clock.advance(5 * MINUTE - 1)
    assert time_brings.elapse(store) == START + 5 * MINUTE
    assert fired(store) == []
    clock.advance(1)
    assert time_brings.elapse(store) == START + 10 * MINUTE
    assert fired(store) == ["2025-10-26T00:05:00Z"]


def test_it_sees_to_all_kinds_of_things_at_once(store: Store, clock: Clock) -> None:
    put(store)
    store.submit([new("due", queue="other", delay=5 * MINUTE), new("old", queue="other", expire=1)])
    clock.advance(5 * MINUTE)
    assert time_brings.elapse(store) == START + 10 * MINUTE
    assert counts(store, "other") == {"pending": 1, "failed": 1}
    assert counts(store) == {"pending": 1}


@pytest.mark.parametrize(
    ("catch_up", "overlap", "expected"),
    [
        ("none", "queue", []),
        ("last", "queue", ["2025-10-26T00:20:00Z"]),
        ("all", "queue", [f"2025-10-26T00:{minute:02}:00Z" for minute in (5, 10, 15, 20)]),
        ("all", "skip", ["2025-10-26T00:20:00Z"]),
    ],
)
def test_what_was_missed_is_made_up_for_as_asked(
    store: Store, clock: Clock, catch_up: CatchUp, overlap: Overlap, expected: list[str]
) -> None:
    put(store, catch_up=catch_up, overlap=overlap)
    clock.advance(23 * MINUTE)
    assert time_brings.elapse(store) == START + 25 * MINUTE
    assert fired(store) == expected


def test_skip_leaves_out_what_would_overlap(store: Store, clock: Clock) -> None:
    register(store)
    put(store, overlap="skip")
    for _ in range(3):
        clock.advance(5 * MINUTE)
        time_brings.elapse(store)
    assert fired(store) == ["2025-10-26T00:05:00Z"]
    apply(store, take(store)[0], Done())
    clock.advance(5 * MINUTE)
    time_brings.elapse(store)
    assert fired(store) == ["2025-10-26T00:05:00Z", "2025-10-26T00:20:00Z"]


def test_queue_lets_them_stand_in_line(store: Store, clock: Clock) -> None:
    put(store, overlap="queue")
    for _ in range(3):
        clock.advance(5 * MINUTE)
        time_brings.elapse(store)
    assert counts(store) == {"pending": 3}


def test_cancel_waits_for_the_end_of_what_it_cancels(store: Store, clock: Clock) -> None:
    register(store)
    put(store, overlap="cancel", catch_up="none")
    clock.advance(5 * MINUTE)
    time_brings.elapse(store)
    [running] = take(store)
    clock.advance(5 * MINUTE)
    assert time_brings.elapse(store) == clock.now + time_brings.WAIT_FOR_CANCELLED_S
    assert last(store).cancel_wanted
    clock.advance(2 * MINUTE)  # it takes its time
    time_brings.elapse(store)
    assert fired(store) == ["2025-10-26T00:05:00Z"]
    apply(store, last(store), Done())
    assert running.id == last(store).id
    clock.advance(time_brings.WAIT_FOR_CANCELLED_S)
    assert time_brings.elapse(store) == START + 15 * MINUTE
    assert fired(store) == ["2025-10-26T00:05:00Z", "2025-10-26T00:10:00Z"]


def test_a_change_makes_no_missed_tick_one_that_waited(store: Store, clock: Clock) -> None:
    put(store, "0 * * * *", catch_up="none")
    clock.advance(65 * MINUTE)
    schedules.change(store, "s", jitter=1.0)  # nobody has seen to the tick of 01:00
    clock.now = START + 160 * MINUTE
    assert time_brings.elapse(store) == START + 180 * MINUTE
    assert fired(store) == []


def test_a_change_ends_the_waiting_of_a_tick(store: Store, clock: Clock) -> None:
    put(store, overlap="cancel", catch_up="none")
    for _ in range(2):
        clock.advance(5 * MINUTE)
        time_brings.elapse(store)
    assert schedules.get(store, "s").waiting
    assert not schedules.change(store, "s", jitter=1.0).waiting
    clock.now = START + 23 * MINUTE
    time_brings.elapse(store)
    assert fired(store) == ["2025-10-26T00:05:00Z"]


def test_cancel_ends_at_once_what_only_waits(store: Store, clock: Clock) -> None:
    put(store, overlap="cancel")
    clock.advance(5 * MINUTE)
    time_brings.elapse(store)
    clock.advance(5 * MINUTE)
    time_brings.elapse(store)
    clock.advance(time_brings.WAIT_FOR_CANCELLED_S)
    time_brings.elapse(store)
    assert counts(store) == {"cancelled": 1, "pending": 1}


def test_cancel_spares_whoever_else_holds_the_unique_word(store: Store, clock: Clock) -> None:
    put(store, overlap="cancel", task=new("-", unique="u"))
    store.submit([new("theirs", unique="u")])
    for _ in range(3):
        clock.advance(5 * MINUTE)
        time_brings.elapse(store)
    assert schedules.get(store, "s").last_task is None
    assert counts(store) == {"pending": 1}


def test_cancel_spares_what_somebody_runs_by_hand(store: Store, clock: Clock) -> None:
    put(store, overlap="cancel", task=new("-", unique="u"))
    run = schedules.run(store, "s")
    for _ in range(3):
        clock.advance(5 * MINUTE)
        time_brings.elapse(store)
    assert schedules.get(store, "s").last_task is None
    assert [task and task.state for task in store.get([run.id])] == ["pending"]


@pytest.mark.parametrize("overlap", ["skip", "cancel"])
def test_what_somebody_retries_is_not_the_schedules_any_more(
    store: Store, clock: Clock, overlap: Overlap
) -> None:
    put(store, overlap=overlap)
    clock.advance(5 * MINUTE)
    time_brings.elapse(store)
    control.cancel(store, last(store).id)
    edit_control.retry(store, last(store).id)
    clock.advance(5 * MINUTE)
    assert time_brings.elapse(store) == START + 15 * MINUTE
    assert counts(store) == {"pending": 2}


def test_jitter_makes_it_start_later(store: Store, clock: Clock) -> None:
    put(store, jitter=MINUTE)
    clock.advance(5 * MINUTE)
    following = time_brings.elapse(store)
    task = last(store)
    assert (task.state, task.eta) == ("scheduled", following)
    assert clock.now < (following or 0) < clock.now + MINUTE


def test_what_expires_does_so_after_it_was_due_not_after_it_was_submitted(
    store: Store, clock: Clock
) -> None:
    put(store, jitter=2 * MINUTE, task=new("-", expire=1.0))
    clock.advance(5 * MINUTE)
    due = time_brings.elapse(store)
    task = last(store)
    assert (task.eta, task.start_before) == (due, (due or 0.0) + 1.0)
    clock.now = due or 0.0
    time_brings.elapse(store)
    assert last(store).state == "pending"
    clock.now = START + 13 * MINUTE  # three minutes late for the next one
    time_brings.elapse(store)
    time_brings.elapse(store)
    assert fired(store) == ["2025-10-26T00:05:00Z", "2025-10-26T00:10:00Z"]
    assert (last(store).state, last(store).ending) == ("failed", "expired")


def test_a_schedule_that_can_not_be_understood_here_keeps_nobody_busy(
    store: Store, clock: Clock
) -> None:
    made = put(store)
    store.put_schedule(replace(made, name="bad", zone="Nowhere/Here"))
    clock.advance(5 * MINUTE)
    following = time_brings.elapse(store)
    assert following is not None
    assert following > clock.now
    assert fired(store) == ["2025-10-26T00:05:00Z"]


def test_a_schedule_without_a_further_tick_is_never_looked_at_again(
    store: Store, clock: Clock
) -> None:
    store.put_schedule(replace(put(store), next=None))
    assert time_brings.elapse(store) is None


def test_very_many_schedules_at_once_are_all_seen_to(store: Store, clock: Clock) -> None:
    made = put(store)
    for number in range(50):
        store.put_schedule(replace(made, name=f"s{number}"))
    clock.advance(5 * MINUTE)
    while (following := time_brings.elapse(store)) is not None and following <= clock.now:
        pass
    assert counts(store) == {"pending": 51}


class Killed(Exception):
    """A worker dies here."""


class Dying:
    """A store that may be gone between any two calls, as for a worker that is killed."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance

    def __getattr__(self, name: str) -> object:
        operation = getattr(self._store, name)

        def call(*arguments: object, **named: object) -> object:
            if self._chance.random() < 0.05:
                raise Killed
            answer = operation(*arguments, **named)
            if self._chance.random() < 0.05:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        pytest.param("30 2 * * *", "America/New_York", id="named"),
        pytest.param("*/30 2 * * *", "Europe/Berlin", id="passing", marks=pytest.mark.long),
    ],
)
def test_each_tick_comes_once_though_workers_die_all_the_time(
    url: str, store: Store, clock: Clock, expression: str, zone: str
) -> None:
    """Three workers, killed at random, over a year of ticks and both changes of the clock."""
    ticks = 400
    made = put(store, expression, zone=zone, overlap="queue", catch_up="all")
    expected = cron.next_ticks(made, START, ticks)
    end = expected[-1]
    turns = [threading.Barrier(3), threading.Barrier(3)]

    def work(number: int) -> int:
        chance = random.Random(number)
        mine = open_store(url, clock=clock)
        killed = 0
        while True:
            if turns[0].wait(PATIENCE) == 0:
                following = mine.promote(0)
                clock.now = max(clock.now, following or 0.0) + chance.choice([0, 0, 1, 5]) * DAY
            turns[1].wait(PATIENCE)
            if clock.now > end + 3600:
                break
            try:
                time_brings.elapse(Dying(mine, chance))  # type: ignore[arg-type]
            except Killed:
                killed += 1
                mine.close()
        while (following := time_brings.elapse(mine)) is not None and following <= clock.now:
            pass
        mine.close()
        return killed

    workers = [in_thread(lambda n=n: work(n)) for n in range(3)]  # type: ignore[misc]
    assert sum(worker() for worker in workers) > 20

    wanted = [tick for tick in cron.next_ticks(made, START, ticks + 5000) if tick <= clock.now]
    assert fired(store) == [cron.task_id("s", tick).removeprefix("s@") for tick in wanted]
    assert len(wanted) >= ticks
    place = ZoneInfo(zone)
    offsets = {datetime.fromtimestamp(tick, place).utcoffset() for tick in wanted}
    assert len(offsets) == 2


@pytest.mark.parametrize("overlap", ["skip", "cancel"])
def test_no_two_are_ever_there_at_once_though_workers_race(
    url: str, store: Store, clock: Clock, overlap: Overlap
) -> None:
    put(store, "* * * * *", overlap=overlap)
    turn = threading.Barrier(3)
    most = 0

    def work(number: int) -> None:
        nonlocal most
        chance = random.Random(number)
        mine = open_store(url, clock=clock)
        name = f"w{number}"
        register(mine, name, lease=1e9)
        for _ in range(60):
            if turn.wait(PATIENCE) == 0:
                clock.advance(chance.choice([1.0, 30.0, 60.0, 61.0, 180.0]))
            turn.wait(PATIENCE)
            time_brings.elapse(mine)
            take(mine, name)
            for held in mine.holdings(name):
                if held.cancel_wanted or chance.random() < 0.3:
                    control.settle(mine, held, Done())
            there = counts(mine)
            most = max(most, sum(there[state] for state in there if state not in FINISHED))
        mine.close()

    for worker in [in_thread(lambda n=n: work(n)) for n in range(3)]:  # type: ignore[misc]
        worker()
    assert most == 1
    assert sum(counts(store).values()) > 3  # it is chance how many
