"""A queue's rate, and taking turns: what is given when."""

from __future__ import annotations

from collections import Counter

import pytest

from stayer.core.happenings import Done, Interrupt
from stayer.core.model import Task
from stayer.core.queue_model import Fair, Rate
from stayer.store import Store
from stayer.stores.sql.store import SqlStore
from tests.contract.builders import (
    Clock,
    apply,
    fill,
    get,
    ids,
    new,
    register,
    submit,
    take,
    take_one,
)
from tests.contract.own_connections import SQL_SERVERS, run_by_hand


def owners(tasks: list[Task]) -> list[str | None]:
    return [task.owner for task in tasks]


class TestRate:
    def test_lets_its_number_begin_at_once_and_then_one_by_one(
        self, store: Store, clock: Clock
    ) -> None:
        register(store)
        store.set_queue("q", rate=Rate(3, 60.0))
        fill(store, 9)
        assert len(take(store, limit=9)) == 3
        assert take(store, limit=9) == []
        clock.advance(19)
        assert take(store, limit=9) == []
        clock.advance(1)
        assert len(take(store, limit=9)) == 1
        clock.advance(1000)
        assert len(take(store, limit=9)) == 3

    def test_counts_starts_however_they_end(self, store: Store) -> None:
        register(store)
        store.set_queue("q", rate=Rate(2, 60.0))
        fill(store, 3)
        for _ in range(2):
            apply(store, take_one(store), Interrupt())
        assert take(store) == []

    def test_is_the_queues_own(self, store: Store) -> None:
        register(store)
        store.set_queue("slow", rate=Rate(1, 60.0))
        fill(store, 2, queue="slow")
        fill(store, 2, queue="quick")
        assert len(take(store, queues=["slow", "quick"], limit=9)) == 3

    def test_tells_when_the_next_may_begin(self, store: Store, clock: Clock) -> None:
        register(store)
        store.set_queue("q", rate=Rate(2, 60.0))
        fill(store, 3)
        assert store.promote(5) is None
        take(store, limit=5)
        assert store.promote(5) == pytest.approx(clock.now + 30)
        assert store.queues(["q"])[0].next_start == pytest.approx(clock.now + 30)
        submit(store, new("due", delay=10))
        assert store.promote(5) == clock.now + 10
        clock.advance(30)
        store.promote(5)
        assert store.queues(["q"])[0].next_start is None
        assert len(take(store, limit=5)) == 1

    def test_a_moment_that_was_told_brings_a_task(self, store: Store, clock: Clock) -> None:
        register(store)
        store.set_queue("q", rate=Rate(7, 3.0))
        fill(store, 40)
        take(store, limit=40)
        for _ in range(30):
            when = store.promote(5)
            assert when is not None
            assert when > clock.now
            clock.now = when
            assert len(take(store, limit=5)) == 1

    def test_says_nothing_where_nothing_waits_for_it(self, store: Store) -> None:
        register(store)
        store.set_queue("q", rate=Rate(1, 60.0))
        fill(store, 1)
        take(store)
        assert store.promote(5) is None
        fill(store, 1)
        assert store.promote(5) is not None
        store.set_queue("q", paused=True)
        assert store.promote(5) is None
        store.set_queue("q", paused=False, limit=1)  # which one runs up to
        assert store.promote(5) is None
        store.set_queue("q", limit=2)
        assert store.promote(5) is not None

    def test_a_new_one_begins_full_and_none_ends_it(self, store: Store) -> None:
        register(store)
        store.set_queue("q", rate=Rate(1, 60.0))
        fill(store, 9)
        assert len(take(store, limit=9)) == 1
        assert store.set_queue("q", rate=None).rate is None
        assert len(take(store, limit=3)) == 3
        store.set_queue("q", rate=Rate(2, 60.0))
        assert len(take(store, limit=9)) == 2

    def test_setting_it_again_gives_nothing(self, store: Store, clock: Clock) -> None:
        """Every worker that starts sets what its file says."""
        register(store)
        store.set_queue("q", rate=Rate(2, 60.0))
        fill(store, 9)
        assert len(take(store, limit=9)) == 2
        store.set_queue("q", rate=Rate(2, 60.0))
        assert take(store, limit=9) == []
        store.set_queue("q", rate=Rate(4, 60.0))
        assert take(store, limit=9) == []
        clock.advance(30.0)
        assert len(take(store, limit=9)) == 2
        clock.advance(3600.0)
        store.set_queue("q", rate=Rate(1, 60.0))
        assert len(take(store, limit=9)) == 1

    def test_a_clock_set_back_takes_nothing_away(self, store: Store, clock: Clock) -> None:
        register(store)
        store.set_queue("q", rate=Rate(2, 60.0))
        fill(store, 4)
        take_one(store)
        clock.advance(-50)
        assert len(take(store, limit=5)) == 1

    def test_a_clock_set_back_holds_nobody_up(self, store: Store, clock: Clock) -> None:
        register(store)
        store.set_queue("q", rate=Rate(2, 60.0))
        fill(store, 6)
        assert len(take(store, limit=9)) == 2
        clock.advance(-365 * 86400.0)
        assert len(take(store, limit=9)) == 2
        assert store.promote(5) == pytest.approx(clock.now + 30)
        clock.advance(30)
        assert len(take(store, limit=9)) == 1


class TestFair:
    @pytest.mark.parametrize("fair", ["owner", "key"])
    def test_those_who_come_together_take_turns(self, store: Store, fair: Fair) -> None:
        register(store)
        store.set_queue("q", fair=fair)
        anns, bobs = (fill(store, 4, **{fair: name}) for name in ("ann", "bob"))
        given = ids(take(store, limit=6))
        assert given == [id for pair in zip(anns[:3], bobs[:3], strict=True) for id in pair]

    def test_priority_goes_before_turns(self, store: Store) -> None:
        register(store)
        store.set_queue("q", fair="owner")
        fill(store, 3, owner="ann", priority=1)
        fill(store, 2, owner="bob")
        assert owners(take(store, limit=4)) == ["ann", "ann", "ann", "bob"]

    def test_who_has_used_less_goes_first(self, store: Store, clock: Clock) -> None:
        register(store)
        store.set_queue("q", fair="owner")
        fill(store, 3, owner="ann")
        first = take_one(store)
        clock.advance(100)
        apply(store, first, Done())
        fill(store, 3, owner="bob")
        second = take_one(store)
        assert second.owner == "bob"
        clock.advance(500)
        apply(store, second, Done())
        assert owners(take(store)) == ["ann"]

    def test_what_was_used_is_forgotten_with_time(self, store: Store, clock: Clock) -> None:
        # Given that ann has used much, long ago
        register(store)
        store.set_queue("q", fair="owner")
        fill(store, 1, owner="ann")
        task = take_one(store)
        clock.advance(4000)
        apply(store, task, Done())
        clock.advance(3 * 86400)

        # When bob has used a little more than is left of that
        fill(store, 2, owner="bob")
        task = take_one(store)
        clock.advance(600)
        apply(store, task, Done())
        fill(store, 2, owner="ann")

        # Then it is ann's turn
        assert owners(take(store)) == ["ann"]

    def test_turns_count_whatever_an_owners_tasks_run(self, store: Store) -> None:
        register(store)
        store.set_queue("q", fair="owner")
        first = fill(store, 1, owner="ann", name="x") + fill(store, 1, owner="ann", name="y")
        others = fill(store, 2, owner="bob", name="x", key="k")
        expected = [first[0], others[0], first[1], others[1]]
        assert ids(take(store, limit=4)) == expected

    def test_what_runs_counts_as_a_usual_run_of_the_queue(self, store: Store, clock: Clock) -> None:
        # Given that runs have taken 10 s each, all of them ann's
        register(store)
        store.set_queue("q", fair="owner")
        fill(store, 2, owner="ann")
        for _ in range(2):
            task = take_one(store)
            clock.advance(10)
            apply(store, task, Done())

        # When both have tasks, and none ends
        fill(store, 3, owner="ann")
        fill(store, 5, owner="bob")

        # Then bob has as much as ann had after two, and they go on in turns
        assert owners([take_one(store) for _ in range(5)]) == ["bob", "bob", "ann", "bob", "ann"]

    def test_a_run_that_goes_on_counts_as_long_as_it_runs(self, store: Store, clock: Clock) -> None:
        register(store)
        store.set_queue("q", fair="owner")
        fill(store, 2, owner="ann")
        fill(store, 4, owner="bob")
        assert owners(take(store)) == ["ann"]
        clock.advance(150)
        # A run counts for a minute at least where none has ended: ann has used 150 s by now.
        assert owners([take_one(store) for _ in range(4)]) == ["bob", "bob", "bob", "ann"]

    def test_a_flood_starves_nobody_and_a_newcomer_does_not_take_all(
        self, store: Store, clock: Clock
    ) -> None:
        """Four places, runs of 100 s; after an hour of ann alone, bob comes."""
        register(store)
        store.set_queue("q", fair="owner", limit=4)
        fill(store, 500, owner="ann")
        running: list[Task] = []
        seconds: Counter[str | None] = Counter()

        def work(turns: int) -> None:
            nonlocal running
            for _ in range(turns):
                running += take(store, limit=4)
                seconds.update(task.owner for task in running)
                clock.advance(100)
                for task in running:
                    apply(store, task, Done())
                running = []

        work(5)
        fill(store, 500, owner="bob")
        seconds.clear()
        work(20)
        assert seconds["ann"] + seconds["bob"] == 80
        assert 24 <= seconds["ann"] <= 40  # bob makes up for what ann had alone, and no more
        seconds.clear()
        work(10)
        assert abs(seconds["ann"] - seconds["bob"]) <= 4

    def test_limits_of_keys_hold_within_turns(self, store: Store) -> None:
        register(store)
        store.set_queue("q", fair="owner", key_limit=1)
        fill(store, 50, owner="ann", key="a")
        fill(store, 2, owner="ann", key="b")
        fill(store, 3, owner="bob", key="a")
        given = take(store, limit=9)
        assert sorted((task.owner, task.key) for task in given) == [("ann", "a"), ("ann", "b")]

    def test_turning_it_on_and_off_keeps_every_task(self, store: Store) -> None:
        register(store)
        names = fill(store, 3, owner="ann") + fill(store, 3, owner="bob")
        running = take_one(store)
        store.set_queue("q", fair="owner")
        assert owners(take(store)) == ["bob"]
        store.set_queue("q", fair="key")
        store.set_queue("q", fair=None)
        assert ids(take(store, limit=9)) == [*names[1:3], *names[4:]]
        assert running.owner == "ann"


@pytest.mark.parametrize("fresh_url", ["sqlite", *SQL_SERVERS], indirect=True, scope="session")
def test_a_running_task_without_its_beginning_stops_nobody(store: SqlStore) -> None:
    """As a row is that was damaged and repaired, or changed by hand."""
    register(store)
    store.set_queue("q", fair="owner")
    fill(store, 3, owner="ann")
    running = take_one(store)
    run_by_hand(store, "UPDATE stayer_tasks SET reserved_at = NULL WHERE state = 'reserved'")
    assert len(take(store)) == 1
    apply(store, running, Done())
    assert get(store, running.id).state == "complete"
    assert len(take(store)) == 1
