"""Notices: decided with what they tell of, kept until delivered, one deliverer at a time."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from typing import Any

import pytest

from stayer.core.errors import BadInput
from stayer.core.happenings import Done, Fail, Happening, Interrupt, Retry, Start, Stop, WorkerLost
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Filter, Policy, Task
from stayer.core.notify import notices
from stayer.core.notify.notices import Delivery, Notice
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores.redis import RedisStore
from stayer.stores.sql.sqlite import SqliteStore
from tests.contract import actors, notice_actors
from tests.contract.builders import (
    Clock,
    apply,
    get,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)
from tests.contract.test_flow_crashes import ON_ONE_SERVER, commands
from tests.contract.test_kill import hear
from tests.processes import PROCESSES

LEASE, AGE = 60.0, 86400.0
FAULT = Fault("ValueError", "no")
EVERY_WORD = f"{','.join(notices.WORDS)}:hook"


def due(store: Store, *hooks: str, limit: int = 100) -> list[Notice]:
    return store.take_notices(hooks or ("hook", ""), limit, LEASE, AGE)


def said(store: Store, task: str | None = None) -> list[tuple[str, str]]:
    """Event and target of every notice, oldest first."""
    found = store.notices(task, None, None, 1000).notices
    return [(notice.event, notice.to) for notice in reversed(found)]


def taken_one(store: Store, *hooks: str) -> Notice:
    [notice] = due(store, *hooks)
    return notice


class TestWhatIsTold:
    @pytest.mark.parametrize(
        ("happening", "event", "words"),
        [
            (Done(1), "complete", "ended complete"),
            (Fail(FAULT), "failed", "ended failed error"),
            (Fail(FAULT, "oom"), "failed", "ended failed oom"),
            (Fail(FAULT, "timeout"), "failed", "ended failed timeout"),
            (Fail(FAULT, "silent"), "failed", "ended failed silent"),
            (Stop(), "cancelled", "ended cancelled"),
        ],
    )
    def test_each_end_is_told_to_those_who_asked_for_it(
        self, store: Store, happening: Happening, event: str, words: str
    ) -> None:
        register(store)
        hooks = tuple(f"{word}:{word}-hook" for word in notices.WORDS)
        task = started(store, notify=hooks)
        apply(store, task, happening)
        told = {(event, f"{word}-hook") for word in words.split()}
        assert {*said(store, task.id)} == {("started", "started-hook")} | told

    def test_a_failure_that_is_tried_again_is_no_end(self, store: Store, clock: Clock) -> None:
        register(store)
        task = taken(store, notify=("ended:end", "retrying:again"), policy=Policy(retries=1))
        apply(store, task, Fail(FAULT))
        assert said(store) == [("retrying", "again")]
        clock.advance(1)
        apply(store, take_one(store), Fail(FAULT))
        assert said(store) == [("retrying", "again"), ("failed", "end")]

    def test_a_loss_is_told_when_it_is_the_last(self, store: Store) -> None:
        register(store)
        submit(store, new(notify=("lost:hook",)))
        for losses in (1, 2, 3):
            assert said(store) == []
            task = apply(store, take_one(store), Start(pid=1))
            apply(store, task, WorkerLost())
            assert get(store, task.id).losses == losses
        assert said(store) == [("failed", "hook")]

    def test_what_is_handed_back_is_no_news(self, store: Store) -> None:
        register(store)
        task = taken(store, notify=(EVERY_WORD,))
        apply(store, task, Interrupt())
        assert said(store) == []

    def test_cancelling_what_waits_is_told(self, store: Store) -> None:
        [task] = submit(store, new(notify=("ended:hook",)))
        control.cancel(store, task.id)
        assert said(store) == [("cancelled", "hook")]

    def test_expiry_is_told_whoever_finds_it(self, store: Store, clock: Clock) -> None:
        register(store)
        submit(store, new("a", notify=("expired:hook",), expire=10.0))
        submit(store, new("b", notify=("failed:hook",), expire=10.0))
        clock.advance(11)
        assert take(store) == []
        while (following := store.promote(10)) is not None and following <= clock.now:
            pass
        assert sorted(said(store)) == [("failed", "hook")] * 2

    def test_a_task_that_is_forsaken_tells(self, store: Store) -> None:
        register(store)
        submit(store, new("a"), new("b", after=("a",), notify=("cancelled:hook",)))
        apply(store, take_one(store), Fail(FAULT))
        while store.promote(10) is not None:
            pass
        assert get(store, "b").state == "cancelled"
        assert said(store) == [("cancelled", "hook")]

    def test_a_declared_lost_workers_late_result_is_told_once(self, store: Store) -> None:
        register(store)
        register(store, "judge")
        task = started(store, notify=("ended:hook",))
        [lost] = store.declare_lost("judge", {"w": 1})
        apply(store, lost, WorkerLost())
        done = decide(task, Done())
        assert [each and each.state for each in store.commit([done])] == ["complete"]
        assert store.commit([done]) == [None]
        assert said(store) == [("complete", "hook")]

    def test_each_end_of_a_task_that_runs_again_is_told(self, store: Store, clock: Clock) -> None:
        register(store)
        task = apply(store, taken(store, notify=("ended:hook",)), Fail(FAULT))
        apply(store, task, Retry())
        clock.advance(1)
        apply(store, take_one(store), Done())
        assert said(store) == [("failed", "hook"), ("complete", "hook")]
        assert len({notice.id for notice in due(store)}) == 2

    def test_a_change_that_is_refused_tells_nobody(self, store: Store) -> None:
        register(store)
        task = taken(store, notify=("ended:hook",))
        change = decide(task, Done())
        apply(store, task, Interrupt())
        assert store.commit([change]) == [None]
        assert said(store) == []

    def test_the_same_target_is_told_once_of_one_thing(self, store: Store) -> None:
        register(store)
        store.set_queue("q", notify=("complete:hook", "failed:other"))
        task = taken(store, notify=("ended:hook", "complete:hook", "complete:https://a.example/x"))
        apply(store, task, Done())
        assert sorted(said(store)) == [("complete", "hook"), ("complete", "https://a.example/x")]


class TestQueues:
    def test_a_queue_tells_of_all_its_tasks(self, store: Store) -> None:
        register(store)
        before = submit(store, new("before"))[0]
        assert store.set_queue("q", notify=("ended:hook",)).notify == ("ended:hook",)
        submit(store, new("after"), new("elsewhere", queue="other"))
        for task in take(store, limit=5) + take(store, queues="other"):
            apply(store, task, Done())
        told = {notice.task for notice in due(store)}
        assert told == {before.id, "after"}

    def test_its_hooks_stay_until_they_are_taken_away(self, store: Store) -> None:
        hooks = ("failed,expired:mail", "ended:https://a.example/x?y=1")
        store.set_queue("q", notify=hooks)
        store.set_queue("q", limit=3)
        assert store.queues(["q"])[0].notify == hooks
        assert store.set_queue("q", notify=()).notify == ()

    def test_many_completions_at_once_are_told_too(self, store: Store) -> None:
        register(store)
        store.set_queue("q", notify=("ended:hook",))
        submit(store, *(new(f"t{number}") for number in range(5)))
        tasks = take(store, limit=5)
        turn(store, tasks)
        assert sorted(notice.task for notice in due(store)) == [f"t{number}" for number in range(5)]

    def test_so_are_those_of_single_tasks_among_many(self, store: Store) -> None:
        register(store)
        submit(store, *(new(f"t{n}", notify=("ended:hook",) if n % 2 else ()) for n in range(6)))
        turn(store, take(store, limit=6))
        assert sorted(notice.task for notice in due(store)) == ["t1", "t3", "t5"]


def turn(store: Store, tasks: Sequence[Task]) -> None:
    changes = [decide(task, Done()) for task in tasks]
    applied, _ = store.turn("w", changes, ["q"], 0, EVERYTHING)
    assert all(applied)


class TestTheRecord:
    def test_is_that_of_the_moment(self, store: Store, clock: Clock) -> None:
        register(store)
        task = started(store, notify=("ended:hook",), parameters={"a": 1}, owner="ann")
        clock.advance(5)
        apply(store, task, Fail(FAULT))
        apply(store, get(store, task.id), Retry())
        notice = taken_one(store)
        assert notice.at == clock.now
        record = notice.record
        assert (record["state"], record["parameters"], record["owner"]) == (
            "failed",
            {"a": 1},
            "ann",
        )
        assert record["error"] == {"type": "ValueError", "message": "no"} | dict.fromkeys(
            ("traceback", "exit_code", "signal")
        )
        assert (notice.task, notice.queue, notice.attempt) == (task.id, "q", 1)

    def test_outlives_its_task(self, store: Store, clock: Clock) -> None:
        register(store)
        task = apply(store, taken(store, notify=("ended:hook",)), Done("result"))
        clock.advance(1)
        assert store.purge([task.id], ["complete"], clock.now, 1) == [task.id]
        notice = taken_one(store)
        assert (notice.task, notice.record["result"]) == (task.id, "result")

    def test_has_neither_variables_nor_hooks_in_it(self, store: Store) -> None:
        register(store)
        task = taken(
            store, notify=("ended:hook", "ended:https://a.example/secret"), env={"KEY": "s3cret"}
        )
        apply(store, task, Done())
        for notice in due(store):
            assert "s3cret" not in str(notice.record)
            assert "a.example" not in str(notice.record)

    @pytest.mark.parametrize("size", [2_000, 20_000])
    @pytest.mark.parametrize("kind", ["text", "bytes", "noise"])
    def test_leaves_out_what_is_long_and_says_so(self, store: Store, size: int, kind: str) -> None:
        noise = "".join(chr(33 + (number * number * 7919 >> 3) % 90) for number in range(size))
        value: Any = {"text": "x" * size, "bytes": b"y" * size, "noise": noise}[kind]
        register(store)
        task = taken(store, notify=("ended:hook",), parameters=value)
        apply(store, task, Done(value))
        record = taken_one(store).record
        left_out = record["left_out"]
        assert isinstance(left_out, list)
        assert left_out == ([] if size < 8_000 else ["parameters", "result"])
        for name in ("parameters", "result"):
            assert (record[name] is None) == (name in left_out)
        assert len(str(record)) < 30_000


class TestDelivering:
    def test_what_is_taken_is_taken_by_one(self, store: Store, other: Store) -> None:
        tell(store, 3)
        one, two = due(store, limit=2), due(other)
        assert (len(one), len(two)) == (2, 1)
        assert {notice.tries for notice in one + two} == {1}
        assert due(store) == []

    def test_the_longest_due_comes_first(self, store: Store, clock: Clock) -> None:
        register(store)
        for id, to in (("a", "hook"), ("b", "https://a.example/"), ("c", "hook")):
            apply(store, taken(store, id=id, notify=(f"ended:{to}",)), Done())
            clock.advance(1)
        assert [notice.task for notice in due(store, limit=2)] == ["a", "b"]

    def test_whoever_dies_with_it_loses_it(self, store: Store, clock: Clock) -> None:
        tell(store, 1)
        first = taken_one(store)
        clock.advance(LEASE - 1)
        assert due(store) == []
        clock.advance(2)
        again = taken_one(store)
        assert (again.id, again.tries, again.record) == (first.id, 2, first.record)

        # And comes too late with what it has to tell
        assert not store.settle_notice(first, Delivery(False, "refused"))
        assert store.settle_notice(again, Delivery(True, "200"))
        assert not store.settle_notice(again, Delivery(True, "200"))

    def test_delivered_is_delivered(self, store: Store, clock: Clock) -> None:
        tell(store, 1)
        assert store.settle_notice(taken_one(store), Delivery(True, "200 OK"))
        clock.advance(LEASE + 1)
        assert due(store) == []
        [notice] = store.notices(None, "delivered", None, 10).notices
        assert (notice.state, notice.said, notice.tries, notice.next) == (
            "delivered", "200 OK", 1, None,
        )  # fmt: skip

    def test_again_means_after_a_while(self, store: Store, clock: Clock) -> None:
        tell(store, 1)
        assert store.settle_notice(taken_one(store), Delivery(False, "500", after=100))
        clock.advance(99)
        assert due(store) == []
        [waiting] = store.notices(None, "pending", None, 10).notices
        assert (waiting.said, waiting.next) == ("500", clock.now + 1)
        clock.advance(1)
        assert taken_one(store).tries == 2

    def test_what_failed_is_set_aside_until_somebody_wants_it(
        self, store: Store, clock: Clock
    ) -> None:
        tell(store, 1)
        notice = taken_one(store)
        assert store.settle_notice(notice, Delivery(False, "410 Gone"))
        clock.advance(10_000)
        assert due(store) == []
        assert store.notices(None, "failed", None, 10).notices[0].said == "410 Gone"
        assert store.retry_notices([notice.id, "nobody"]) == 1
        again = taken_one(store)
        assert (again.id, again.tries, again.forgiven) == (notice.id, 2, 1)
        assert (notice.since, again.since) == (None, clock.now)

    def test_a_retry_leaves_alone_what_is_delivered(self, store: Store) -> None:
        tell(store, 1)
        notice = taken_one(store)
        store.settle_notice(notice, Delivery(True, "200"))
        assert store.retry_notices([notice.id]) == 0
        assert due(store) == []

    def test_what_is_dropped_is_gone(self, store: Store) -> None:
        tell(store, 2)
        one, two = due(store)
        assert store.drop_notices([one.id, one.id, "nobody"]) == 1
        assert [notice.id for notice in store.notices(None, None, None, 10).notices] == [two.id]
        assert not store.settle_notice(one, Delivery(True, "200"))

    def test_nobody_is_given_hooks_that_are_not_theirs(self, store: Store) -> None:
        register(store)
        task = taken(store, notify=("ended:mail", "ended:https://a.example/", "ended:slack"))
        apply(store, task, Done())
        assert [notice.to for notice in due(store, "mail")] == ["mail"]
        assert [notice.to for notice in due(store, "")] == ["https://a.example/"]
        assert store.take_notices([], 10, LEASE, AGE) == []
        assert [notice.to for notice in due(store, "mail", "", "slack")] == ["slack"]

    def test_a_hook_that_nobody_knows_fails_in_the_end(self, store: Store, clock: Clock) -> None:
        tell(store, 1)
        clock.advance(AGE - 1)
        assert due(store, "other") == []
        assert len(store.notices(None, "pending", None, 10).notices) == 1
        clock.advance(2)
        assert due(store, "other") == []
        [failed] = store.notices(None, "failed", None, 10).notices
        assert failed.said == notices.NOBODY

    def test_what_is_over_is_forgotten_what_is_not_stays(self, store: Store, clock: Clock) -> None:
        tell(store, 3)
        one, two, three = due(store)
        store.settle_notice(one, Delivery(True, "200"))
        store.settle_notice(two, Delivery(False, "410"))
        store.settle_notice(three, Delivery(False, "500", after=notices.KEPT + 10))
        clock.advance(notices.KEPT + 1)
        due(store)
        assert [each.id for each in store.notices(None, None, None, 10).notices] == [three.id]
        assert [each.id for each in store.notices(three.task, None, None, 10).notices] == [three.id]
        assert store.notices(one.task, None, None, 10).notices == ()


def tell(store: Store, number: int) -> None:
    """So many notices to `hook`."""
    register(store)
    submit(store, *(new(notify=("ended:hook",)) for _ in range(number)))
    store.commit([decide(task, Done()) for task in take(store, limit=number)])


class TestListing:
    def test_pages_go_back_in_time_and_leave_nothing_out(self, store: Store, clock: Clock) -> None:
        register(store)
        for number in range(7):
            apply(store, taken(store, id=f"t{number}", notify=("ended:hook",)), Done())
            clock.advance(0.5)
        for state in (None, "pending"):
            seen: list[str] = []
            cursor = None
            while True:
                page = store.notices(None, state, cursor, 3)
                seen += [notice.task for notice in page.notices]
                if (cursor := page.next) is None:
                    break
            assert seen == [f"t{number}" for number in reversed(range(7))]

    def test_of_one_task_by_state(self, store: Store, clock: Clock) -> None:
        register(store)
        for id in ("a", "b"):
            apply(store, started(store, id=id, notify=("started,ended:hook",)), Done())
            clock.advance(1)
        first = due(store, limit=1)[0]
        store.settle_notice(first, Delivery(True, "200"))
        assert first.task == "a"
        assert len(store.notices("a", None, None, 10).notices) == 2
        assert len(store.notices("a", "pending", None, 10).notices) == 1
        assert [each.id for each in store.notices("a", "delivered", None, 10).notices] == [first.id]
        assert store.notices("nobody", None, None, 10).notices == ()

    def test_a_cursor_that_is_none_is_refused(self, store: Store) -> None:
        with pytest.raises(BadInput, match="cursor"):
            store.notices(None, None, "no cursor", 10)


class TestTasks:
    def test_keep_their_hooks(self, store: Store) -> None:
        hooks = ("failed,expired:mail", "ended:https://a.example/x?y=1")
        register(store)
        [task] = submit(store, new(notify=hooks))
        assert task.notify == get(store, task.id).notify == hooks
        assert take_one(store).notify == hooks

    def test_can_be_given_others_while_they_run(self, store: Store) -> None:
        register(store)
        task = started(store, notify=("ended:one",))
        changed = control.set(store, task.id, notify=["failed:two", "three"])
        assert changed.notify == ("failed:two", "ended:three")
        apply(store, changed, Done())
        assert said(store) == [("complete", "three")]

    def test_can_be_let_go_quietly(self, store: Store) -> None:
        register(store)
        changed = control.set(store, started(store, notify=("ended:one",)).id, notify=[])
        apply(store, changed, Done())
        assert said(store) == []


@ON_ONE_SERVER
class TestCost:
    @pytest.mark.parametrize("with_hook", [False, True])
    def test_a_task_that_nobody_wants_to_hear_of_costs_nothing(
        self, store: Store, with_hook: bool
    ) -> None:
        register(store)
        # Given a queue of others that does tell
        store.set_queue("other", notify=("ended:hook",))
        task = taken(store, notify=("failed:hook",) if with_hook else ())
        used = commands(store, lambda: apply(store, task, Done()))
        if isinstance(store, RedisStore):
            assert not {"zrangebylex", "hset", "strlen"} & {*used}
        else:
            assert used.count("BEGIN") == 1
            assert not [statement for statement in used if "_notices" in statement]

    def test_many_that_end_together_are_still_one_statement(self, store: Store) -> None:
        register(store)
        submit(store, *(new() for _ in range(20)))
        tasks = take(store, limit=20)
        used = commands(store, lambda: turn(store, tasks))
        if isinstance(store, SqliteStore):
            ends = [each for each in used if re.match("UPDATE [a-z]+_tasks", each)]
            assert len(ends) == 1
        assert len(used) < 20 if isinstance(store, SqliteStore) else True

    def test_looking_for_nothing_writes_nothing(self, store: Store) -> None:
        asking = {"evalsha", "eval", "info", "time", "exists"}
        if isinstance(store, RedisStore):
            assert {*commands(store, lambda: due(store))} <= asking
        tell(store, 1)
        store.settle_notice(taken_one(store), Delivery(True, "200"))
        used = commands(store, lambda: due(store))
        if isinstance(store, RedisStore):
            assert {*used} <= {*asking, "get", "zrangebylex", "zrangebyscore"}
        else:
            assert not [each for each in used if re.match("UPDATE|DELETE|INSERT", each)]


class TestRaces:
    def test_many_who_deliver_get_each_notice_once(self, timely: Store, url: str) -> None:
        tell(timely, 60)
        taken = actors.together(notice_actors.take_notices, [(url,) for _ in range(3)])
        everything = [id for each in taken for id in each]
        assert len(everything) == 60 == len({*everything})

    @pytest.mark.parametrize("round", range(3))
    def test_whoever_is_killed_ends_no_task_without_its_notice(
        self, timely: Store, url: str, round: int
    ) -> None:
        # Given one that ends tasks as fast as it can
        here, there = PROCESSES.Pipe()
        victim = PROCESSES.Process(
            target=notice_actors.end_dangerously, args=(there, url, "victim"), daemon=True
        )
        victim.start()
        there.close()
        hear(here, 3)

        # When it is killed, whatever it does just then
        time.sleep(random.random() / 500)
        victim.kill()
        victim.join()
        here.close()

        # Then each of those that have ended has its notice, and none of the others
        ended = control.find_all(timely, Filter(states=("complete",)))
        told = timely.notices(None, "pending", None, 100_000).notices
        assert sorted(notice.task for notice in told) == sorted(task.id for task in ended)


def test_what_no_task_brings_is_kept_once_and_delivered(
    store: Store, other: Store, clock: Clock
) -> None:
    # Given a lost worker, found by two
    known = register(store, "lost")
    task = started(store, "lost")
    made = [
        notices.lost_worker_notice(known, [task], "q", "mail", clock() + later)
        for later in (0.0, 1.0)
    ]
    assert made[0].id == made[1].id
    store.add_notices([made[0]])
    other.add_notices([made[1]])

    # Then there is one, of no task, and it is delivered as any other
    [notice] = due(store, "mail")
    assert (notice.id, notice.task, notice.event, notice.at) == (
        made[0].id,
        "",
        "worker_lost",
        clock(),
    )
    assert notice.record == made[0].record
    assert due(other, "mail") == []
    assert store.settle_notice(notice, Delivery(True, "heard"))
    other.add_notices([made[1]])
    assert [each.state for each in store.notices(None, None, None, 9).notices] == ["delivered"]
    assert store.drop_notices([notice.id]) == 1
    assert store.notices(None, None, None, 9).notices == ()
