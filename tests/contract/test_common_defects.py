"""What commonly goes wrong in job queues, and must not in any store."""

from __future__ import annotations

import pytest

from stayer.core.errors import LeaseLost
from stayer.core.happenings import Cancel, Done, Fail, Interrupt, Start
from stayer.core.model import FINISHED, Fault, Filter
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract.builders import (
    PATIENCE,
    Clock,
    apply,
    beat,
    check_counts,
    commit,
    counts,
    fill,
    get,
    happened,
    ids,
    in_thread,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
    worker,
)
from tests.contract.test_waiter import calm


class TestWorkersThatDie:
    def test_a_task_whose_process_was_killed_is_not_started_for_ever(self, store: Store) -> None:
        register(store, "dead")
        register(store, "judge")
        task = started(store, "dead")
        assert (
            worker_control.return_lost_tasks(store, store.declare_lost("judge", {"dead": 1})) == 1
        )
        assert ids(take(store, "judge")) == [task.id]

    def test_no_result_is_a_result(self, store: Store) -> None:
        register(store)
        done = apply(store, started(store), Done(None))
        assert (done.state, done.result) == ("complete", None)

    def test_a_second_crash_loses_nothing(self, store: Store) -> None:
        register(store, "judge")
        [name] = fill(store, 1)
        for number in range(5):
            register(store, f"w{number}")
            assert ids(take(store, f"w{number}")) == [name]
            worker_control.return_lost_tasks(store, store.declare_lost("judge", {f"w{number}": 1}))
        assert get(store, name).attempt == 5

    def test_every_task_of_a_dead_worker_comes_back(self, store: Store) -> None:
        register(store, "dead")
        register(store, "judge")
        names = fill(store, 7)
        held = take(store, "dead", limit=7)
        for task in held[::2]:
            apply(store, task, Start())
        assert (
            worker_control.return_lost_tasks(store, store.declare_lost("judge", {"dead": 1})) == 7
        )
        assert ids(take(store, "judge", limit=10)) == names

    def test_a_judge_that_dies_after_its_verdict_loses_nothing(self, store: Store) -> None:
        register(store, "dead")
        register(store, "judge")
        register(store, "other")
        names = fill(store, 3)
        take(store, "dead", limit=3)
        assert sorted(ids(store.declare_lost("judge", {"dead": 1}))) == sorted(
            names
        )  # and no more of it
        assert worker_control.return_lost_tasks(store, store.declare_lost("other", {})) == 3
        assert ids(take(store, "other", limit=9)) == names

    def test_only_the_holder_may_finish(self, store: Store) -> None:
        register(store, "old")
        register(store, "new")
        task = taken(store, "old")
        apply(store, task, Interrupt())
        again = take_one(store, "new")
        assert commit(store, task, Done("old")) is None
        assert apply(store, again, Done("new")).result == "new"

    def test_the_death_of_one_worker_leaves_its_peers_alone(self, store: Store) -> None:
        register(store, "dead")
        register(store, "alive")
        lost, kept = started(store, "dead"), started(store, "alive")
        worker_control.return_lost_tasks(store, store.declare_lost("alive", {"dead": 1}))
        assert store.holdings("alive") == [kept]
        assert apply(store, kept, Done()).state == "complete"
        assert counts(store) == {"complete": 1, "pending": 1}
        assert get(store, lost.id).state == "pending"

    def test_one_that_leaves_takes_nothing_from_its_peers(self, store: Store) -> None:
        register(store, "leaves")
        register(store, "stays")
        mine, its = started(store, "leaves"), started(store, "stays")
        assert ids(store.drop_worker("leaves", 1)) == [mine.id]
        assert store.holdings("stays") == [its]
        assert apply(store, its, Done()).state == "complete"

    def test_a_worker_dies_once(self, store: Store) -> None:
        register(store, "dead")
        register(store, "judge")
        task = taken(store, "dead")
        for _ in range(3):
            worker_control.return_lost_tasks(store, store.declare_lost("judge", {"dead": 1}))
        assert happened(store.events(task.id)) == ["pending", "reserved", "pending"]
        assert [known.id for known in store.workers()] == ["judge"]

    def test_a_returned_task_goes_first_and_wakes_somebody(
        self, store: Store, other: Store
    ) -> None:
        register(store)
        first = taken(store)
        fill(store, 3)
        waiter = store.waiter(None, ["q"])
        calm(waiter)
        woken = in_thread(lambda: waiter.wait(PATIENCE))
        apply(other, first, Interrupt())
        assert woken()
        assert take_one(store).id == first.id
        waiter.close()

    def test_a_declared_lost_worker_can_take_nothing_more(self, store: Store) -> None:
        register(store, "w")
        register(store, "judge")
        taken(store, "w")
        fill(store, 3)
        store.declare_lost("judge", {"w": 1})
        with pytest.raises(LeaseLost):
            take(store, "w")
        with pytest.raises(LeaseLost):
            beat(store, worker("w"), 2)
        assert counts(store) == {"reserved": 1, "pending": 3}


class TestWhatIsSeenAndCancelled:
    def test_a_silent_task_is_not_run_twice(self, store: Store, clock: Clock) -> None:
        register(store, "silent", lease=1.0)
        register(store, "other", lease=1000.0)
        started(store, "silent")
        clock.advance(10)
        assert {known.id: known.state for known in store.workers()}["silent"] == "STALE"
        assert take(store, "other", limit=10) == []

    def test_a_cancel_works_whatever_has_failed(self, store: Store) -> None:
        register(store)
        apply(store, taken(store), Fail(Fault("Boom")))
        submit(store, new("a"))
        assert control.cancel(store, "a").state == "cancelled"

    def test_a_cancelled_task_says_so_and_can_be_forgotten(self, store: Store) -> None:
        submit(store, new("a"))
        control.cancel(store, "a")
        assert (get(store, "a").state, counts(store)) == ("cancelled", {"cancelled": 1})
        assert store.purge(None, FINISHED, float("inf"), 10) == ["a"]

    def test_a_running_task_that_is_cancelled_ends_alone(self, store: Store) -> None:
        register(store)
        task, other = started(store), started(store)
        apply(store, task, Cancel())
        [orders] = beat(store, "w", 2).orders
        assert orders.id == task.id
        assert apply(store, other, Done()).state == "complete"

    def test_workers_say_what_they_do(self, store: Store) -> None:
        register(store, "host.with.dots.4242.1700000000.123")
        register(store, "busy")
        started(store, "busy")
        states = {known.id: known.state for known in store.workers()}
        assert states == {"host.with.dots.4242.1700000000.123": "IDLE", "busy": "PROCESSING"}

    def test_a_list_is_of_its_queue(self, store: Store) -> None:
        fill(store, 2, queue="mine")
        fill(store, 2, queue="other")
        found = store.find(Filter(queues=("mine",)), None, 10).tasks
        assert {task.queue for task in found} == {"mine"}

    def test_a_cancelled_task_is_not_queued_again(self, store: Store) -> None:
        register(store)
        task = started(store)
        apply(store, task, Cancel())
        assert control.settle(store, task, Interrupt()).state == "cancelled"
        assert take(store) == []
        assert happened(store.events(task.id))[-1] == "cancelled"


class TestNames:
    def test_an_id_is_one_for_two_calls_on_one_connection(self, store: Store) -> None:
        answers = [in_thread(lambda: store.submit([new("a")])[0].fresh) for _ in range(8)]
        assert sorted(answer() for answer in answers) == [False] * 7 + [True]
        assert counts(store) == {"pending": 1}

    def test_so_is_a_unique_word(self, store: Store) -> None:
        answers = [in_thread(lambda: store.submit([new(unique="u")])[0].fresh) for _ in range(8)]
        assert sorted(answer() for answer in answers) == [False] * 7 + [True]
        assert counts(store) == {"pending": 1}

    @pytest.mark.parametrize("how", ["cancel", "delete", "drop"])
    def test_a_unique_word_is_free_when_its_task_is_gone(self, store: Store, how: str) -> None:
        submit(store, new("a", unique="u"))
        match how:
            case "drop":
                store.drop_queue("q", 10)
            case _:
                control.cancel(store, "a")
        if how == "delete":
            store.purge(["a"], FINISHED, float("inf"), 1)
        assert store.submit([new("b", unique="u")])[0].fresh

    def test_a_cancelled_id_leaks_nothing(self, store: Store) -> None:
        submit(store, new("a"))
        control.cancel(store, "a")
        store.purge(None, FINISHED, float("inf"), 10)
        assert store.submit([new("a")])[0].purged
        store.drop_queue("q", 10)
        assert store.queues() == []

    @pytest.mark.parametrize(
        "queue", ["a:b", "{a}", "a}:lane:b", "%7B", "a b", "*", "ü", "{}", "}"]
    )
    def test_a_name_is_only_a_name(self, store: Store, queue: str) -> None:
        register(store)
        fill(store, 2, queue="a")
        names = fill(store, 2, queue=queue, name="c:d")
        assert ids(take(store, queues=[queue], limit=10)) == names
        assert [info.name for info in store.queues()] == sorted(["a", queue])
        check_counts(store)

    def test_names_that_could_be_mistaken_are_not(self, store: Store) -> None:
        """`a` with the lane `b}:lane:c`, and `a}:lane:b` with the lane `c`."""
        register(store)
        submit(
            store,
            new("one", queue="a", name="b}:lane:name c"),
            new("two", queue="a}:lane:name b", name="c"),
        )
        assert ids(take(store, queues=["a"], limit=10)) == ["one"]
