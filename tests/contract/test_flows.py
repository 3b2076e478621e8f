"""Tasks that run after others: `after`, `behind`, `when_failed`, the outbox."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.errors import BadInput, Refused
from stayer.core.happenings import Cancel, Done, Fail, Hold, Release
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault, NewTask, Policy, State, Task, WhenFailed
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import edits as edit_control
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from stayer.store import REMEMBERED, Store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    counts,
    get,
    happened,
    ids,
    new,
    register,
    submit,
    take,
    take_one,
)

BOOM = Fail(Fault("Boom"))


@pytest.fixture(autouse=True)
def worker(store: Store) -> None:
    register(store, queues=("q", "other"))


def after(id: str, *upstreams: str, when_failed: WhenFailed = "cancel", **fields: Any) -> NewTask:
    return new(id, after=upstreams, policy=Policy(when_failed=when_failed), **fields)


def states(store: Store, *names: str) -> list[State]:
    return [task.state if task else "cancelled" for task in store.get(names)]


def finish(store: Store, id: str, how: Done | Fail | None = None) -> Task:
    """Take this task, which must be the best of its queue, and end it."""
    task = take_one(store, queue=get(store, id).queue)
    assert task.id == id
    return apply(store, task, how or Done(id))


def pass_on(store: Store) -> None:
    """What a worker does, until there is no more to do."""
    for _ in range(1000):
        following = store.promote(100)
        if following is None or following > store.now():
            return
    raise AssertionError("there is always more to pass on")


class TestWaiting:
    def test_a_task_waits_until_all_that_it_runs_after_is_complete(self, store: Store) -> None:
        # In any order, across queues
        [join, *_] = submit(store, after("join", "b", "a"), new("a"), new("b", queue="other"))
        assert (join.state, join.upstreams, join.dependents) == ("waiting", 2, False)
        assert get(store, "join") == join
        assert get(store, "a").dependents
        assert ids(take(store, queues=["q", "other"], limit=9)) == ["a", "b"]
        assert store.waits("join", 9) == (["b", "a"], 2)

        apply(store, get(store, "b"), Done())
        assert states(store, "join") == ["waiting"]
        assert store.waits("join", 9) == (["a"], 1)

        apply(store, get(store, "a"), Done())
        assert states(store, "join") == ["pending"]
        assert store.waits("join", 9) == ([], 0)
        assert finish(store, "join").state == "complete"
        assert happened(store.events("join")) == ["waiting", "pending", "reserved", "complete"]
        assert store.promote(10) is None
        check_counts(store)

    def test_the_answer_is_the_task_as_it_is_there(self, store: Store) -> None:
        tasks = submit(store, new("a", flow="f", part="x"), after("b", "a", flow="f", part="y"))
        assert tasks == store.get(["a", "b"])
        assert [(task.flow, task.part) for task in tasks] == [("f", "x"), ("f", "y")]

    def test_what_it_runs_after_is_known_in_its_order(self, store: Store) -> None:
        submit(store, new("a"), new("b"), new("c"), new("d", after=("c", "a"), behind=("b",)))
        [of_d, of_a] = store.upstreams(["d", "a"])
        assert (of_d.after, of_d.behind) == (("c", "a"), ("b",))
        assert (of_a.after, of_a.behind) == ((), ())

    def test_a_task_with_an_eta_waits_for_it_afterwards(self, store: Store, clock: Clock) -> None:
        [_, late] = submit(store, new("a"), after("late", "a", eta=clock.now + 60))
        assert late.state == "waiting"
        assert store.promote(10) is None
        finish(store, "a")
        assert states(store, "late") == ["scheduled"]
        clock.advance(61)
        store.promote(10)
        assert states(store, "late") == ["pending"]

    def test_a_held_task_stays_held_when_it_is_ready(self, store: Store) -> None:
        submit(store, new("a"), after("b", "a", held=True))
        finish(store, "a")
        assert (get(store, "b").state, get(store, "b").held) == ("pending", True)
        assert take(store) == []
        apply(store, get(store, "b"), Release())
        assert finish(store, "b").state == "complete"

    def test_one_that_waits_can_be_held_and_cancelled(self, store: Store) -> None:
        submit(store, new("a"), after("b", "a"), after("c", "b"))
        apply(store, get(store, "b"), Hold())
        assert store.waits("b", 9) == (["a"], 1)
        apply(store, get(store, "b"), Cancel())
        assert states(store, "b", "c") == ["cancelled", "cancelled"]
        assert store.waits("b", 9) == ([], 0)
        finish(store, "a")
        assert states(store, "b", "c") == ["cancelled", "cancelled"]
        check_counts(store)

    def test_a_task_can_be_needed_by_later_submissions(self, store: Store) -> None:
        submit(store, new("a"))
        taken = take_one(store)
        submit(store, after("b", "a"))
        apply(store, taken, Done())
        assert states(store, "b") == ["pending"]

    def test_a_retried_task_counts_as_it_counted(self, store: Store) -> None:
        submit(store, new("a"), new("b", queue="other"), after("c", "a", "b"))
        finish(store, "a")
        edit_control.retry(store, "a")
        finish(store, "b")
        assert states(store, "a", "c") == ["pending", "pending"]

    def test_by_turns(self, store: Store) -> None:
        submit(store, new("a"), after("b", "a"))
        change = decide(take_one(store), Done())
        applied, _ = store.turn("w", [change], ["q"], 0, EVERYTHING)
        assert applied == [True]
        assert states(store, "b") == ["pending"]


class TestSubmitting:
    def test_one_that_runs_after_nobody_knows_what_is_refused(self, store: Store) -> None:
        with pytest.raises(BadInput, match=r"task b is to run after 'nobody'.*Nothing was acc"):
            store.submit([new("a"), after("b", "a"), new("c"), after("b", "nobody")])
        assert store.get(["a", "b", "c"]) == [None, None, None]
        assert store.queues() == []
        with pytest.raises(BadInput, match="'nobody'"):
            store.submit([new("a", behind=("nobody",))])

    def test_a_circle_is_refused(self, store: Store) -> None:
        with pytest.raises(BadInput, match="in a circle: a → c → b → a"):
            store.submit([after("a", "c"), after("b", "a"), after("c", "b"), new("d")])
        assert store.get(["a", "d"]) == [None, None]

    def test_an_end_that_was_before_counts_at_once(self, store: Store) -> None:
        submit(store, new("a"))
        finish(store, "a")
        [b, c] = submit(store, after("b", "a"), after("c", "a", "b"))
        assert (b.state, c.state) == ("pending", "waiting")
        assert store.waits("c", 9) == (["b"], 1)
        finish(store, "b")
        assert states(store, "c") == ["pending"]

    @pytest.mark.parametrize(
        ("when_failed", "becomes"),
        [
            ("cancel", ("cancelled", False)),
            ("run", ("pending", False)),
            ("hold", ("pending", True)),
        ],
    )
    def test_a_failure_that_was_before_counts_at_once(
        self, store: Store, when_failed: WhenFailed, becomes: tuple[State, bool]
    ) -> None:
        submit(store, new("a"))
        finish(store, "a", BOOM)
        store.submit([after("b", "a", when_failed=when_failed)])
        assert (get(store, "b").state, get(store, "b").held) == becomes
        assert store.promote(10) is None

    def test_the_end_of_a_purged_task_is_remembered(self, store: Store, clock: Clock) -> None:
        submit(store, new("a"), new("bad"))
        finish(store, "a")
        finish(store, "bad", BOOM)
        store.purge(None, FINISHED, clock.advance(1), 9)
        store.submit([after("b", "a"), after("c", "bad")])
        assert states(store, "b", "c") == ["pending", "cancelled"]
        clock.advance(REMEMBERED + 1)
        with pytest.raises(BadInput, match="'a'"):
            store.submit([after("d", "a")])

    def test_a_task_that_is_there_is_left_as_it_is(self, store: Store) -> None:
        submit(store, new("a"), new("b"))
        [answer] = store.submit([after("b", "a")])
        assert not answer.fresh
        assert (answer.task.state, answer.task.upstreams) == ("pending", 0)
        # ... also if others of the same call run after it
        [b, c] = store.submit([after("b", "a"), after("c", "b")])
        assert (b.fresh, c.fresh) == (False, True)
        take(store, limit=2)
        apply(store, get(store, "b"), Done())
        assert states(store, "c") == ["pending"]

    def test_many_submissions_of_the_same_are_one(self, store: Store, other: Store) -> None:
        tasks = [new("a"), after("b", "a"), after("c", "a", "b")]
        store.submit(tasks)
        assert [answer.fresh for answer in other.submit(tasks)] == [False] * 3
        finish(store, "a")
        finish(store, "b")
        assert states(store, "c") == ["pending"]
        assert counts(store) == {"complete": 2, "pending": 1}


class TestFailing:
    @pytest.mark.parametrize("bad", ["failed", "cancelled"])
    def test_it_is_passed_on_to_all_behind(self, store: Store, bad: str) -> None:
        submit(store, new("a"), after("b", "a"), after("c", "b"), after("d", "c", queue="other"))
        if bad == "failed":
            finish(store, "a", BOOM)
        else:
            control.cancel(store, "a")
        pass_on(store)
        assert states(store, "b", "c", "d") == ["cancelled"] * 3
        b, c = get(store, "b"), get(store, "c")
        assert b.error == Fault("Forsaken", f"it was to run after a, which is {bad}")
        assert c.error == Fault("Forsaken", "it was to run after b, which is cancelled")
        assert (b.ending, b.finished_at) == ("cancelled", store.now())
        check_counts(store)

    def test_one_failure_is_enough_and_the_others_are_not_awaited(self, store: Store) -> None:
        submit(store, new("a"), new("b", queue="other"), after("c", "a", "b"))
        finish(store, "a", BOOM)
        assert states(store, "c") == ["cancelled"]
        finish(store, "b")
        assert states(store, "c") == ["cancelled"]

    def test_run_awaits_all_and_minds_nothing(self, store: Store) -> None:
        submit(store, new("a"), new("b"), after("c", "a", "b", when_failed="run"))
        finish(store, "a", BOOM)
        assert states(store, "c") == ["waiting"]
        control.cancel(store, "b")
        assert (get(store, "c").state, get(store, "c").held) == ("pending", False)

    def test_hold_awaits_all_and_then_somebody(self, store: Store) -> None:
        submit(store, new("a"), new("b"), after("c", "a", "b", when_failed="hold"))
        finish(store, "a", BOOM)
        assert (get(store, "c").state, get(store, "c").held) == ("waiting", True)
        finish(store, "b")
        assert (get(store, "c").state, get(store, "c").held) == ("pending", True)
        assert take(store) == []
        control.release(store, "c")
        assert finish(store, "c").state == "complete"

    def test_who_is_only_behind_does_not_mind(self, store: Store) -> None:
        submit(store, new("a"), new("b", behind=("a",)))
        assert states(store, "b") == ["waiting"]
        finish(store, "a", BOOM)
        assert states(store, "b") == ["pending"]

    def test_a_retry_alone_awaits_what_has_not_ended(self, store: Store) -> None:
        submit(store, new("a"), new("b", queue="other"), after("c", "a", "b"))
        finish(store, "a", BOOM)
        assert states(store, "c") == ["cancelled"]
        assert edit_control.retry(store, "c").state == "waiting"
        assert store.waits("c", 9) == (["b"], 1)
        finish(store, "b")
        assert states(store, "c") == ["pending"]
        finish(store, "c")
        assert edit_control.retry(store, "c").state == "pending"
        check_counts(store)

    def test_a_deleted_task_counts_as_cancelled(self, store: Store) -> None:
        submit(store, new("a", queue="other"), after("b", "a"), after("c", "a", when_failed="run"))
        queue_control.drop_queue(store, "other", force=True)
        pass_on(store)
        assert states(store, "b", "c") == ["cancelled", "pending"]


class TestPurging:
    def test_what_others_need_stays(self, store: Store, clock: Clock) -> None:
        submit(store, new("a"), new("b"), after("c", "a"), after("d", "c"))
        finish(store, "a")
        finish(store, "b")
        finish(store, "c")
        before = clock.advance(1)
        with pytest.raises(Refused, match="needed by tasks that are to run after it"):
            control.delete(store, "c")
        assert store.purge(None, FINISHED, before, 2) == ["a", "b"]
        assert store.purge(None, FINISHED, before, 2) == []
        assert store.purge(["c"], FINISHED, before, 2) == []
        finish(store, "d")
        assert sorted(store.purge(None, FINISHED, clock.advance(1), 9)) == ["c", "d"]
        assert store.upstreams(["c"])[0].after == ()

    def test_one_that_runs_keeps_what_it_runs_after(self, store: Store, clock: Clock) -> None:
        submit(store, new("a"), after("b", "a"))
        finish(store, "a")
        take_one(store)
        assert store.purge(None, FINISHED, clock.advance(1), 9) == []


class TestTheOutbox:
    def test_any_worker_passes_on_what_another_left(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submit(store, new("a"), after("b", "a"))
        monkeypatch.setattr(store, "_relay", lambda: None)  # killed right after its commit
        finish(store, "a")
        assert states(store, "b") == ["waiting"]
        for _ in range(2):
            following = store.promote(0)
            assert following is not None
            assert following < store.now()
        pass_on(store)
        assert states(store, "b") == ["pending"]
        assert store.promote(10) is None

    def test_what_was_retried_before_it_was_passed_on_has_not_ended(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submit(store, new("a"), after("b", "a"))
        monkeypatch.setattr(store, "_relay", lambda: None)
        finish(store, "a", BOOM)
        edit_control.retry(store, "a")
        pass_on(store)
        assert states(store, "a", "b") == ["pending", "waiting"]
        finish(store, "a")
        pass_on(store)
        assert states(store, "b") == ["pending"]

    def test_what_is_deleted_before_it_was_passed_on_counts_as_it_ended(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submit(store, new("a", queue="other"), after("b", "a"))
        monkeypatch.setattr(store, "_relay", lambda: None)
        finish(store, "a")
        queue_control.drop_queue(store, "other")
        pass_on(store)
        assert states(store, "b") == ["pending"]

    def test_part_by_part(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        many = [f"b{number}" for number in range(25)]
        submit(store, new("a"), *(after(id, "a") for id in many), after("join", *many))
        monkeypatch.setattr(store, "_relay", lambda: None)
        finish(store, "a")
        store.promote(10)
        assert counts(store) == {"complete": 1, "pending": 10, "waiting": 16}
        pass_on(store)
        assert counts(store) == {"complete": 1, "pending": 25, "waiting": 1}
        store.commit([decide(task, Done()) for task in take(store, limit=25)])
        pass_on(store)
        assert ids(take(store, limit=9)) == ["join"]
        check_counts(store)

    def test_many_join_once(self, store: Store) -> None:
        many = [f"b{number}" for number in range(400)]
        submit(store, new("a"), *(after(id, "a") for id in many), after("join", *many))
        finish(store, "a")
        pass_on(store)
        done = 0
        while tasks := take(store, limit=7):
            store.commit([decide(task, Done()) for task in tasks])
            done += len(tasks)
        assert done == 401
        assert counts(store) == {"complete": 402}
        assert happened(store.events("join")).count("pending") == 1
        assert store.promote(10) is None


@pytest.mark.parametrize("queue", ["gone", "q", "other"])
def test_an_id_that_comes_again_before_its_deletion_is_passed_on_leaves_nobody_waiting(
    store: Store, queue: str
) -> None:
    register(store, queues=("gone", "q", "other"))
    submit(store, new("a", "gone"), after("b", "a"), after("c", "b", "a", when_failed="run"))
    assert store.drop_queue("gone", 9) == 0
    submit(store, new("a", queue))
    store.set_queue(queue, paused=False)
    pass_on(store)
    while tasks := take(store, queues=["gone", "q", "other"], limit=9):
        assert None not in store.commit([decide(task, Done()) for task in tasks])
        pass_on(store)
    assert states(store, "a", "c") == ["complete", "complete"]
    assert get(store, "b").state in FINISHED, "told of the deletion, or of the end of the other"
    check_counts(store)


def test_what_expires_is_passed_on_as_a_failure(store: Store, clock: Clock) -> None:
    submit(store, new("first", expire=10.0), new("second", after=("first",)))
    clock.now += 11
    while (following := store.promote(100)) is not None and following <= clock.now:
        pass
    assert (get(store, "first").ending, get(store, "second").state) == ("expired", "cancelled")


def test_what_waits_may_expire_too_and_is_waited_for_no_more(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("first"), new("second", after=("first",), expire=10.0))
    clock.now += 11
    store.promote(100)
    assert get(store, "second").ending == "expired"
    assert store.waits("second", 5) == ([], 0)
    store.commit([decide(take(store)[0], Done())])
    assert get(store, "second").state == "failed"
