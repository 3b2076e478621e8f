"""Store.declare_lost and Store.drop_worker: what becomes of a dead worker and of what it held."""

from __future__ import annotations

import pytest

from stayer.core.errors import LeaseLost, Refused, UnknownWorker
from stayer.core.happenings import Cancel, Done, WorkerLost
from stayer.core.liveness.lost_workers import BY_OPERATOR, BY_SERVER, KEPT_S, MOST, why
from stayer.core.model import Task
from stayer.service.control import workers as worker_control
from stayer.store import Store, known_lost_workers
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    commit,
    counts,
    fill,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    taken,
    worker,
)


def names(store: Store) -> list[str]:
    return sorted(known.id for known in store.workers())


class TestDeclareLost:
    @pytest.fixture(autouse=True)
    def _judge(self, store: Store) -> None:
        register(store, "judge")

    def test_gives_what_the_dead_worker_held(self, store: Store) -> None:
        register(store, "w")
        register(store, "alive")
        reserved = taken(store, "w")
        running = started(store, "w", queue="other")
        taken(store, "alive")

        lost = store.declare_lost("judge", {"w": 1})

        assert sorted(lost, key=by_id) == sorted([reserved, running], key=by_id)
        assert names(store) == ["alive", "judge"]

    def test_changes_no_task_by_itself(self, store: Store) -> None:
        register(store, "w")
        task = taken(store, "w")
        store.declare_lost("judge", {"w": 1})
        assert get(store, task.id) == task
        assert store.holdings("w") == [task]
        assert counts(store) == {"reserved": 1}

    def test_a_worker_that_has_beaten_since_does_nothing(self, store: Store) -> None:
        register(store, "w")
        task = taken(store, "w")
        beat(store, "w", 2)
        assert store.declare_lost("judge", {"w": 1}) == []
        assert names(store) == ["judge", "w"]
        beat(store, "w", 3)
        assert apply(store, task, Done()).state == "complete"

    def test_needs_the_very_number(self, store: Store) -> None:
        register(store, "w")
        beat(store, "w", 2)
        assert store.declare_lost("judge", {"w": 3}) == []
        assert names(store) == ["judge", "w"]

    def test_a_worker_that_nobody_knows_does_nothing(self, store: Store) -> None:
        assert store.declare_lost("judge", {"stranger": 1}) == []
        assert names(store) == ["judge"]

    def test_takes_several_at_once_and_leaves_the_rest(self, store: Store) -> None:
        lost = []
        for name in ("a", "b", "c"):
            register(store, name)
            lost.append(taken(store, name).id)
        beat(store, "b", 2)
        assert sorted(ids(store.declare_lost("judge", {"a": 1, "b": 1, "c": 1}))) == [
            lost[0],
            lost[2],
        ]
        assert names(store) == ["b", "judge"]

    def test_is_for_good(self, store: Store) -> None:
        register(store, "w")
        taken(store, "w")
        store.declare_lost("judge", {"w": 1})
        for number, nonce in ((2, "new"), (1, "nonce 1"), (1, "new")):
            with pytest.raises(LeaseLost):
                beat(store, "w", number, nonce=nonce)
        assert names(store) == ["judge"]

    def test_is_for_good_once_the_tasks_are_gone(self, store: Store) -> None:
        register(store, "w")
        taken(store, "w")
        worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1}))
        store.declare_lost("judge", {})
        with pytest.raises(LeaseLost):
            beat(store, "w", 2)
        with pytest.raises(LeaseLost):
            take(store, "w")

    def test_goes_on_until_nothing_is_held(self, store: Store) -> None:
        # Given a judge that died after declaring a worker lost, before deciding
        register(store, "w")
        fill(store, 3)
        held = take(store, "w", limit=3)
        assert len(store.declare_lost("judge", {"w": 1})) == 3
        register(store, "second judge")

        # When another judge comes, it is given what is still held
        lost = store.declare_lost("second judge", {})
        assert sorted(ids(lost)) == sorted(ids(held))
        worker_control.return_lost_tasks(store, lost[:2])
        assert ids(store.declare_lost("second judge", {})) == [lost[2].id]
        worker_control.return_lost_tasks(store, lost[2:])

        # Then nothing is left
        assert store.declare_lost("second judge", {}) == []
        assert store.holdings("w") == []
        assert counts(store) == {"pending": 3}

    def test_forgets_who_holds_nothing(self, store: Store) -> None:
        register(store, "w")
        assert store.declare_lost("judge", {"w": 1}) == []
        assert names(store) == ["judge"]
        with pytest.raises(UnknownWorker):
            store.drop_worker("w")

    def test_may_not_be_done_by_a_stranger(self, store: Store) -> None:
        register(store, "w")
        with pytest.raises(LeaseLost):
            store.declare_lost("stranger", {"w": 1})
        assert names(store) == ["judge", "w"]

    def test_may_be_done_by_who_is_no_worker(self, store: Store) -> None:
        register(store, "w")
        task = taken(store, "w")
        assert store.declare_lost(None, {"w": 2}) == []
        assert store.declare_lost(None, {"w": 1}) == [task]
        assert names(store) == ["judge"]
        assert store.declare_lost(None, {}) == [task]

    def test_may_not_be_done_by_the_dead(self, store: Store) -> None:
        register(store, "dead")
        register(store, "w")
        taken(store, "dead")
        store.declare_lost("judge", {"dead": 1})
        with pytest.raises(LeaseLost):
            store.declare_lost("dead", {"w": 1})
        assert names(store) == ["judge", "w"]

    def test_a_dead_worker_may_finish_what_is_still_its(self, store: Store) -> None:
        register(store, "w")
        running = started(store, "w")
        [lost] = store.declare_lost("judge", {"w": 1})
        assert apply(store, running, Done("just in time")).state == "complete"
        assert commit(store, lost, WorkerLost()) is None
        assert get(store, running.id).result == "just in time"

    def test_a_lost_task_goes_back_to_its_place(self, store: Store, clock: Clock) -> None:
        register(store, "w")
        first = started(store, "w")
        clock.advance(1)
        second = fill(store, 1)
        assert worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1})) == 1
        back = get(store, first.id)
        assert (back.state, back.worker, back.ending) == ("pending", None, "lost")
        assert (back.interruptions, back.losses, back.failures) == (1, 1, 0)
        assert store.attempts(first.id)[0].ending == "lost"
        assert ids(take(store, "judge", limit=5)) == [first.id, *second]
        check_counts(store)

    def test_a_task_that_was_to_be_cancelled_is(self, store: Store) -> None:
        register(store, "w")
        apply(store, started(store, "w", id="a"), Cancel())
        worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1}))
        task = get(store, "a")
        assert (task.state, task.error and task.error.type) == ("cancelled", "Unproven")

    def test_frees_room_in_a_full_queue_once_decided(self, store: Store) -> None:
        store.set_queue("q", limit=1)
        register(store, "w")
        task = taken(store, "w")
        lost = store.declare_lost("judge", {"w": 1})
        assert take(store, "judge") == []
        worker_control.return_lost_tasks(store, lost)
        assert ids(take(store, "judge")) == [task.id]


class TestDroppingAWorker:
    def test_that_is_stale_gives_what_it_held(self, store: Store, clock: Clock) -> None:
        register(store, "w", lease=60)
        task = taken(store, "w")
        clock.advance(61)
        assert store.drop_worker("w") == [task]
        assert store.workers() == []
        with pytest.raises(LeaseLost):
            beat(store, worker("w", lease=60), 2)
        with pytest.raises(LeaseLost):
            take(store, "w")

    def test_that_is_not_stale_is_refused(self, store: Store, clock: Clock) -> None:
        register(store, "w", lease=60)
        task = taken(store, "w")
        clock.advance(59)
        with pytest.raises(Refused):
            store.drop_worker("w")
        assert names(store) == ["w"]
        assert get(store, task.id) == task
        beat(store, worker("w", lease=60), 2)

    def test_by_its_own_last_number_lets_it_go(self, store: Store) -> None:
        register(store, "w")
        beat(store, "w", 2)
        task = taken(store, "w")
        assert store.drop_worker("w", 2) == [task]
        assert store.workers() == []
        with pytest.raises(LeaseLost):
            take(store, "w")

    def test_by_another_number_is_refused(self, store: Store) -> None:
        register(store, "w")
        beat(store, "w", 2)
        for number in (1, 3):
            with pytest.raises(LeaseLost):
                store.drop_worker("w", number)
        assert names(store) == ["w"]
        beat(store, "w", 3)

    def test_by_another_number_is_refused_though_it_is_stale(
        self, store: Store, clock: Clock
    ) -> None:
        """Who asks by number speaks for itself, and its twin may still be alive."""
        register(store, "w", lease=60)
        beat(store, worker("w", lease=60), 2)
        clock.advance(61)
        with pytest.raises(LeaseLost):
            store.drop_worker("w", 1)
        assert names(store) == ["w"]

    def test_that_nobody_knows_says_so(self, store: Store) -> None:
        with pytest.raises(UnknownWorker):
            store.drop_worker("stranger")
        with pytest.raises(UnknownWorker):
            store.drop_worker("stranger", 1)

    def test_leaves_its_tasks_to_any_judge(self, store: Store) -> None:
        register(store, "judge")
        register(store, "w")
        task = taken(store, "w")
        store.drop_worker("w", 1)
        assert store.declare_lost("judge", {}) == [task]

    def test_returns_its_tasks_by_the_operators_verb(self, store: Store, clock: Clock) -> None:
        register(store, "w", lease=60)
        fill(store, 2)
        take(store, "w", limit=2)
        clock.advance(61)
        assert worker_control.drop_worker(store, "w") == 2
        assert counts(store) == {"pending": 2}


class TestHoldings:
    def test_are_what_the_worker_has(self, store: Store) -> None:
        register(store, "w")
        register(store, "v")
        submit(store, new("a"), new("b", queue="other"), new("c"))
        held = take(store, "w", ["q", "other"], limit=3)
        assert sorted(ids(store.holdings("w"))) == ["a", "b", "c"]
        apply(store, held[0], Done())
        assert sorted(ids(store.holdings("w"))) == ["b", "c"]
        assert store.holdings("v") == []
        assert store.holdings("stranger") == []

    def test_show_a_reservation_whose_answer_got_lost(self, store: Store, other: Store) -> None:
        register(store, "w")
        fill(other, 2)
        unseen = take(other, "w", limit=2)
        assert sorted(store.holdings("w"), key=by_id) == sorted(unseen, key=by_id)


def by_id(task: Task) -> str:
    return task.id


class TestLostWorkers:
    """Workers that were declared lost stay visible, and are workers no more."""

    @pytest.fixture(autouse=True)
    def _judge(self, store: Store) -> None:
        register(store, "judge")

    def test_tell_since_when_why_and_what_they_ran(self, store: Store, clock: Clock) -> None:
        register(store, "w", queues=("q",))
        task = started(store, "w")
        last_beat = next(each.beat_at for each in store.workers() if each.id == "w")
        clock.advance(300)
        beat(store, "judge", 2)

        worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1}))
        store.declare_lost("judge", {})

        [lost] = known_lost_workers(store, store.workers())
        assert (lost.id, lost.node, lost.pid) == ("w", worker("w").node, worker("w").pid)
        assert (lost.running, lost.tasks) == (1, (task.id,))
        assert lost.beat_at == pytest.approx(last_beat)
        assert lost.lost_at == pytest.approx(last_beat + 300, abs=30)
        assert why(lost).endswith("then declared lost by worker judge")
        assert names(store) == ["judge"]
        assert store.holdings("w") == []
        with pytest.raises(UnknownWorker):
            store.drop_worker("w")

    def test_are_those_that_an_operator_or_a_server_gave_up_but_not_those_that_left(
        self, store: Store, clock: Clock
    ) -> None:
        for name in ("dropped", "silent", "left"):
            register(store, name)
        store.drop_worker("left", 1)
        store.drop_worker("silent", 1, is_lost=True)
        clock.advance(1000)
        store.drop_worker("dropped")
        found = {lost.id: lost.by for lost in known_lost_workers(store, ())}
        assert found == {"dropped": BY_OPERATOR, "silent": BY_SERVER}
        assert [*found] == ["dropped", "silent"]

    def test_are_listed_for_a_day_and_not_once_they_are_back(
        self, store: Store, clock: Clock
    ) -> None:
        for name in ("w", "back"):
            register(store, name)
        store.declare_lost("judge", {"w": 1, "back": 1})
        register(store, "back")
        assert [lost.id for lost in known_lost_workers(store, store.workers())] == ["w"]
        clock.advance(KEPT_S + 60)
        assert known_lost_workers(store, store.workers()) == []

    def test_are_no_more_than_some_however_many_crash(self, store: Store) -> None:
        for number in range(MOST + 3):
            register(store, f"w{number}")
            store.drop_worker(f"w{number}", 1, is_lost=True)
        found = [lost.id for lost in store.lost_workers()]
        assert found == [f"w{number}" for number in reversed(range(3, MOST + 3))]
