"""Store.queues, set_queue and drop_queue: settings, and counts that are always true."""

from __future__ import annotations

import pytest

from stayer.core.errors import Refused, UnknownQueue
from stayer.core.happenings import (
    Cancel,
    Done,
    Fail,
    Hold,
    Interrupt,
    Release,
    Retry,
    Snooze,
    Start,
)
from stayer.core.model import FINISHED, Fault, LogPiece, Report
from stayer.core.queue_model import QueueInfo
from stayer.service.control import queues as queue_control
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
    submit,
    take,
    take_one,
    taken,
    worker,
)


def info(store: Store, name: str = "q") -> QueueInfo:
    [found] = store.queues([name])
    return found


class TestCounts:
    def test_follow_a_task_through_every_state(self, store: Store, clock: Clock) -> None:
        register(store)
        [task] = submit(store, new("a", delay=5))
        assert counts(store) == {"scheduled": 1}
        clock.advance(5)
        store.promote(1)
        assert counts(store) == {"pending": 1}
        task = take_one(store)
        assert counts(store) == {"reserved": 1}
        task = apply(store, task, Start())
        assert counts(store) == {"started": 1}
        task = apply(store, task, Snooze(5))
        assert counts(store) == {"scheduled": 1}
        [waiting] = store.commit([bare(task, "waiting")])
        assert waiting is not None
        assert counts(store) == {"waiting": 1}
        task = apply(store, waiting, Cancel())
        assert counts(store) == {"cancelled": 1}
        task = apply(store, task, Retry())
        assert counts(store) == {"pending": 1}
        task = apply(store, take_one(store), Fail(Fault("Boom")))
        assert counts(store) == {"failed": 1}
        apply(store, task, Retry())
        apply(store, take_one(store), Done())
        assert counts(store) == {"complete": 1}
        clock.advance(1)
        store.purge(None, FINISHED, clock.now, 1)
        assert counts(store) == {}

    def test_are_not_moved_by_what_is_refused_or_stays(self, store: Store) -> None:
        register(store)
        fill(store, 3)
        first = take_one(store)
        apply(store, first, Interrupt())
        store.commit([])
        store.submit([new(first.id)])
        apply(store, apply(store, get(store, first.id), Hold()), Release())
        assert counts(store) == {"pending": 3}
        check_counts(store)

    def test_belong_to_one_queue(self, store: Store) -> None:
        register(store)
        fill(store, 2, queue="a")
        fill(store, 3, queue="b")
        take(store, queues="b")
        assert counts(store, "a") == {"pending": 2}
        assert counts(store, "b") == {"pending": 2, "reserved": 1}


class TestQueues:
    def test_are_listed_by_name(self, store: Store) -> None:
        for name in ("m", "z", "a"):
            fill(store, 1, queue=name)
        assert [each.name for each in store.queues()] == ["a", "m", "z"]
        assert [each.name for each in store.queues(["z", "unknown", "a"])] == ["a", "z"]

    def test_stay_when_their_tasks_are_gone(self, store: Store, clock: Clock) -> None:
        register(store)
        apply(store, taken(store), Done())
        clock.advance(1)
        store.purge(None, FINISHED, clock.now, 10)
        assert info(store).name == "q"

    def test_know_how_many_workers_listen(self, store: Store) -> None:
        fill(store, 1)
        assert info(store).workers == 0
        register(store, "one", queues=("q", "r"))
        register(store, "two", queues=("r",))
        register(store, "three", queues=("q",))
        assert info(store).workers == 2
        store.declare_lost("two", {"one": 1})
        assert info(store).workers == 1

    def test_know_their_oldest_task_that_could_be_taken(self, store: Store, clock: Clock) -> None:
        register(store)
        assert store.set_queue("q").oldest is None
        submit(store, new(held=True), new(delay=100))
        clock.advance(1)
        first = clock.now
        fill(store, 1)
        clock.advance(1)
        fill(store, 1, priority=5)
        assert info(store).oldest == first
        take(store, limit=2)
        assert info(store).oldest is None


class TestSettings:
    def test_make_the_queue(self, store: Store) -> None:
        made = store.set_queue("q", paused=True, limit=4)
        assert (made.name, made.paused, made.limit) == ("q", True, 4)
        assert (info(store).paused, info(store).limit) == (True, 4)
        assert counts(store) == {}

    def test_that_are_not_named_stay(self, store: Store) -> None:
        store.set_queue("q", paused=True, limit=4)
        assert store.set_queue("q", limit=5).paused
        assert store.set_queue("q", paused=False).limit == 5
        unchanged = store.set_queue("q")
        assert (unchanged.paused, unchanged.limit) == (False, 5)

    def test_none_is_no_limit(self, store: Store) -> None:
        store.set_queue("q", limit=0)
        assert info(store).limit == 0
        assert store.set_queue("q", limit=None).limit is None
        assert info(store).limit is None

    def test_keep_the_tasks_and_their_counts(self, store: Store) -> None:
        register(store)
        fill(store, 3)
        take(store)
        set_to = store.set_queue("q", paused=True, limit=1)
        assert {state: n for state, n in set_to.counts.items() if n} == counts(store)
        assert counts(store) == {"pending": 2, "reserved": 1}

    def test_are_kept_by_the_first_task(self, store: Store) -> None:
        register(store)
        store.set_queue("q", paused=True)
        fill(store, 1)
        assert info(store).paused
        assert take(store) == []

    def test_are_seen_by_everyone(self, store: Store, other: Store) -> None:
        register(store)
        fill(store, 3)
        other.set_queue("q", limit=1)
        assert len(take(store, limit=3)) == 1

    def test_pausing_lets_what_runs_run_on(self, store: Store) -> None:
        register(store)
        running = taken(store)
        queue_control.pause_queue(store, "q")
        assert apply(store, apply(store, running, Start()), Done()).state == "complete"


class TestDropping:
    def test_deletes_the_tasks_and_then_the_queue(self, store: Store, clock: Clock) -> None:
        # Given a queue with tasks in every state that is not running, and another queue
        register(store)
        apply(store, taken(store), Done())
        apply(store, taken(store), Fail(Fault("Boom")))
        submit(store, new(delay=5), new(held=True), new(), new())
        fill(store, 2, queue="other")

        # When it is dropped in small steps, then it shrinks
        assert store.drop_queue("q", 4) == 2
        check_counts(store)
        assert info(store).paused
        assert store.drop_queue("q", 4) == 0

        # Then it is gone, nothing of it is due, and the other one is untouched
        assert [each.name for each in store.queues()] == ["other"]
        clock.advance(10)
        assert store.promote(10) is None
        assert counts(store, "other") == {"pending": 2}
        check_counts(store)

    def test_takes_all_that_belongs_to_the_tasks(self, store: Store) -> None:
        register(store)
        task = taken(store, id="a")
        report = Report(id="a", attempt=1, checkpoint=b"x", log=(LogPiece(0, b"x"),))
        beat(store, "w", 2, report)
        apply(store, task, Done())
        assert store.drop_queue("q", 10) == 0
        assert store.get(["a"]) == [None]
        assert (store.attempts("a"), store.log("a", 1, 0, 10)) == ([], [])
        assert happened(store.events("a")) in ([], ["deleted"])
        assert store.checkpoint("a") is None

    def test_pauses_it_while_some_are_left(self, store: Store) -> None:
        register(store)
        fill(store, 5)
        assert store.drop_queue("q", 2) == 3
        assert take(store) == []

    @pytest.mark.parametrize("start", [False, True], ids=["reserved", "started"])
    def test_is_refused_while_one_is_running(self, store: Store, start: bool) -> None:
        register(store)
        task = taken(store)
        if start:
            task = apply(store, task, Start())
        names = fill(store, 2)
        with pytest.raises(Refused):
            store.drop_queue("q", 10)
        assert [each and each.id for each in store.get(names)] == names
        apply(store, task, Done())
        assert store.drop_queue("q", 10) == 0

    def test_what_is_not_there_says_so(self, store: Store) -> None:
        with pytest.raises(UnknownQueue):
            store.drop_queue("q", 10)

    def test_an_empty_one_is_gone_at_once(self, store: Store) -> None:
        store.set_queue("q", limit=1)
        assert store.drop_queue("q", 10) == 0
        assert store.queues() == []

    def test_leaves_no_settings_behind(self, store: Store) -> None:
        register(store)
        store.set_queue("q", limit=0)
        store.drop_queue("q", 10)
        names = fill(store, 1)
        assert (info(store).paused, info(store).limit) == (False, None)
        assert ids(take(store)) == names

    def test_tasks_of_a_queue_that_comes_again_are_taken(self, store: Store) -> None:
        register(store)
        apply(store, taken(store), Done())
        assert store.drop_queue("q", 10) == 0
        names = fill(store, 1)
        assert ids(take(store)) == names

    def test_by_the_operators_verb_spares_unfinished_work(self, store: Store) -> None:
        fill(store, 2)
        with pytest.raises(Refused):
            queue_control.drop_queue(store, "q")
        assert queue_control.drop_queue(store, "q", force=True) == 2
        assert store.queues() == []


def test_what_was_dropped_before_it_ran_may_be_submitted_again(store: Store) -> None:
    register(store)
    submit(store, new("waiting"), new("ended"))
    [ended] = [task for task in take(store, limit=2) if task.id == "ended"]
    apply(store, ended, Done())
    apply(store, get(store, "waiting"), Interrupt())
    while store.drop_queue("q", 10):
        pass
    waiting, gone = store.submit([new("waiting"), new("ended")])
    assert (waiting.fresh, gone.fresh, gone.purged) == (True, False, True)


def test_queues_with_workers_and_without_tasks_are_listed(store: Store, clock: Clock) -> None:
    register(store, "w", queues=("empty", "full"))
    register(store, "gone", queues=("old",), lease=10)
    clock.advance(11)
    beat(store, worker("w", queues=("empty", "full")), 2)
    fill(store, 1, "full")

    found = {queue.name: queue for queue in queue_control.list_queues(store)}

    assert [*found] == ["empty", "full"]
    assert found["empty"].workers == found["full"].workers == 1
    assert found["empty"].counts.keys() == found["full"].counts.keys()
    assert not any(found["empty"].counts.values())
    assert [queue.name for queue in queue_control.list_queues(store, ["empty", "full"])] == ["full"]
