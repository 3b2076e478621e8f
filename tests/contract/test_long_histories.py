"""A task to which very much happens: its first and its last events are kept, and what is said of
the others is true.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from stayer.core.happenings import Done, Hold, Interrupt, Release, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Event, LogPiece, Report, Task, Usage
from stayer.core.worker_model import EVERYTHING
from stayer.store import HISTORY_HEAD, HISTORY_TAIL, Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    happened,
    new,
    register,
    submit,
    take_one,
    taken,
)

SLACK = 150
"""How much more may be kept: they are moved, and dropped, in parts."""


def laps(store: Store, task: Task, number: int, clock: Clock, note: str | None = None) -> Task:
    """Hand it back and take it again, so many times: two events each."""
    for _ in range(number):
        clock.advance(1)
        change = decide(task, Interrupt(note))
        [applied], [task] = store.turn("w", [change], ["q"], 1, EVERYTHING)
        assert applied
    return task


def holds(store: Store, task: Task, number: int) -> Task:
    """Two events each, of one attempt."""
    for _ in range(number):
        task = apply(store, apply(store, task, Hold()), Release())
    return task


def gap_of(events: list[Event]) -> int:
    [gap] = [position for position, event in enumerate(events) if event.event == "dropped"]
    return gap


def told(event: Event) -> tuple[object, ...]:
    return event.at, event.event, event.attempt, event.note


class TestEvents:
    def test_of_the_beginning_and_the_end_are_kept(self, store: Store, clock: Clock) -> None:
        register(store)
        task = laps(store, taken(store), 900, clock)
        everything = store.watch(0, 0, 10_000)
        events = store.events(task.id)
        assert len(everything) == 1802
        assert len(events) < HISTORY_HEAD + HISTORY_TAIL + SLACK

        gap = gap_of(events)
        head, dropped, tail = events[:gap], events[gap], events[gap + 1 :]
        assert len(head) >= HISTORY_HEAD
        assert len(tail) >= HISTORY_TAIL
        assert [*map(told, head)] == [*map(told, everything[: len(head)])]
        assert [*map(told, tail)] == [*map(told, everything[-len(tail) :])]
        missing = len(everything) - len(head) - len(tail)
        assert dropped.note is not None
        assert dropped.note.startswith(f"{missing:,} events ")
        assert (dropped.id, dropped.queue, dropped.at) == (task.id, "q", tail[0].at)
        numbers = [event.number for event in events]
        assert numbers == sorted(set(numbers))

        # However much more happens, it does not grow.
        laps(store, task, 300, clock)
        assert len(store.events(task.id)) < HISTORY_HEAD + HISTORY_TAIL + SLACK
        assert [*map(told, store.events(task.id)[:gap])] == [*map(told, head)]

    def test_are_all_there_up_to_the_limit(self, store: Store) -> None:
        [task] = submit(store, new("a"))
        holds(store, task, (HISTORY_HEAD + HISTORY_TAIL) // 2 - 1)
        lap = ["held", "released"] * ((HISTORY_HEAD + HISTORY_TAIL) // 2 - 1)
        assert happened(store.events("a")) == ["pending", *lap]

    def test_with_much_to_say_are_counted_as_others(self, store: Store, clock: Clock) -> None:
        register(store)
        task = laps(store, taken(store), 600, clock, note="x" * 2000)
        events = store.events(task.id)
        gap = gap_of(events)
        assert HISTORY_HEAD <= gap < HISTORY_HEAD + SLACK
        assert HISTORY_TAIL <= len(events) - gap - 1 < HISTORY_TAIL + SLACK
        assert f"{1202 - len(events) + 1:,} events " in (events[gap].note or "")

    def test_are_not_ascribed_to_a_worker_of_before_the_gap(
        self, store: Store, clock: Clock
    ) -> None:
        """Where it is no longer known who had an attempt, nobody is named."""
        register(store, "first")
        register(store)
        task = taken(store, "first")
        apply(store, holds(store, task, 70), Interrupt())
        [task] = store.reserve("w", ["q"], 1, EVERYTHING)
        holds(store, task, 600)
        events = store.events(task.id)
        tail = events[gap_of(events) + 1 :]
        assert {event.worker for event in tail} == {None}
        assert {event.attempt for event in tail} == {2}


class TestAttempts:
    def test_that_are_kept_are_whole(self, store: Store, clock: Clock) -> None:
        register(store)
        task = laps(store, taken(store), 900, clock)
        attempts = store.attempts(task.id)
        numbers = [attempt.attempt for attempt in attempts]
        kept = set(numbers)
        [hole] = [first for first, then in pairwise(numbers) if then > first + 1]
        assert numbers == sorted(kept)
        assert hole >= HISTORY_HEAD // 2 - 2
        assert kept >= set(range(901 - HISTORY_TAIL // 2 + 2, 902))
        assert len(kept) < (HISTORY_HEAD + HISTORY_TAIL + SLACK) // 2
        assert {attempt.ending for attempt in attempts[:-1]} == {"interrupted"}
        for attempt in attempts:
            assert attempt.worker == "w"
            assert attempt.reserved_at == clock.now - 901 + attempt.attempt
        assert (attempts[-1].attempt, attempts[-1].ending) == (901, None)

    @pytest.mark.parametrize("laps_before", [0, 100])
    def test_include_the_one_that_goes_on_however_much_happens_to_it(
        self, store: Store, clock: Clock, laps_before: int
    ) -> None:
        register(store)
        task = laps(store, taken(store), laps_before, clock)
        began = clock.advance(1)
        task = apply(store, task, Start(pid=77))
        task = holds(store, task, 600)
        [*_, newest] = store.attempts(task.id)
        assert (newest.attempt, newest.ending) == (laps_before + 1, None)
        assert (newest.worker, newest.node, newest.pid) == ("w", "node-of-w", 77)
        assert newest.started_at == began

        apply(store, task, Done())
        [*_, newest] = store.attempts(task.id)
        assert (newest.attempt, newest.ending, newest.pid) == (laps_before + 1, "done", 77)

    def test_are_none_where_none_was_made(self, store: Store) -> None:
        [task] = submit(store, new("a"))
        holds(store, task, 800)
        gap_of(store.events("a"))
        assert store.attempts("a") == []


class TestLogsAndUsage:
    def test_go_with_their_attempts(self, store: Store, clock: Clock) -> None:
        # Given a task every attempt of which has said and used something, for a while, then some
        register(store)
        task = taken(store)
        reported, beats = [], 1
        for lap in range(900):
            if lap < 120 or lap % 20 == 0:
                beats += 1
                beat(store, "w", beats, report(task))
                reported.append(task.attempt)
            task = laps(store, task, 1, clock)

        # Then those are there that can be told of; of the others at most the two at the gap
        listed = {attempt.attempt: attempt for attempt in store.attempts(task.id)}
        logs = {number for number in reported if store.log(task.id, number, 0, 100)}
        used = {number for number in reported if store.usage(task.id, number)}
        assert logs >= listed.keys() & set(reported)
        assert logs == used
        assert len(logs - listed.keys()) <= 2
        assert all(listed[number].usage for number in logs & listed.keys())
        assert 60 < len(logs) < len(reported) - 50


def report(task: Task) -> Report:
    return Report(
        id=task.id,
        attempt=task.attempt,
        log=(LogPiece(0, b"said", 0.0),),
        usage=Usage(cpu=1.0, ran=1.0),
    )


def test_a_task_with_a_gap_is_purged_whole(store: Store, clock: Clock) -> None:
    register(store)
    task = laps(store, taken(store, id="a"), 700, clock)
    beat(store, "w", 2, report(task))
    apply(store, task, Done())
    clock.advance(1)
    assert store.purge(None, ["complete"], clock.now, 10) == ["a"]
    assert not store.events("a")
    assert not store.attempts("a")
    assert not store.log("a", 701, 0, 100)
    assert not store.usage("a", 701)


def test_a_queue_that_becomes_fair_counts_from_the_last_reservation(
    store: Store, clock: Clock
) -> None:
    # Given a task of ann's that was taken many times, and of which the last time is forgotten
    register(store)
    task = laps(store, taken(store, owner="ann"), 100, clock)
    task = holds(store, apply(store, task, Start(7)), 600)
    # When the queue becomes fair, and it runs for 5 s, one of bob's for 20 s
    store.set_queue("q", fair="owner")
    clock.advance(5)
    apply(store, task, Done())
    other = taken(store, owner="bob")
    clock.advance(20)
    apply(store, other, Done())
    # Then ann has used less, and is next
    submit(store, new("bob's", owner="bob"), new("ann's", owner="ann"))
    assert take_one(store).id == "ann's"
