"""Store.forget: what has been kept for long enough goes, and nothing else."""

from __future__ import annotations

from msgspec.structs import replace

from stayer.core.happenings import Done, Fail, Start
from stayer.core.model import Fault, LogPiece, Report
from stayer.core.queue_model import Kept
from stayer.core.schedules.model import Firing, Schedule
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    counts,
    fill,
    get,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)

USUAL: dict[Kept, float] = {"complete": 100.0, "failed": 300.0, "cancelled": 200.0}


def finish_three(store: Store, queue: str = "q") -> None:
    """A complete, a failed and a cancelled one, called after their queue and state."""
    apply(store, taken(store, queue=queue, id=f"{queue}-complete"), Done("result"))
    apply(store, taken(store, queue=queue, id=f"{queue}-failed"), Fail(Fault("Boom")))
    submit(store, new(f"{queue}-cancelled", queue=queue))
    control.cancel(store, f"{queue}-cancelled")


def forget_all(store: Store, retention: dict[Kept, float] = USUAL, limit: int = 100) -> int:
    seen = 0
    while number := store.forget(retention, limit):
        seen += number
    return seen


def test_each_state_is_kept_for_its_time(store: Store, clock: Clock) -> None:
    register(store)
    finish_three(store)
    clock.advance(100)
    assert forget_all(store) == 0
    clock.advance(0.5)
    assert forget_all(store) == 1
    assert counts(store) == {"failed": 1, "cancelled": 1}
    clock.advance(100)
    assert forget_all(store) == 1
    assert counts(store) == {"failed": 1}
    clock.advance(100)
    assert forget_all(store) == 1
    assert counts(store) == {}
    check_counts(store)


def test_a_queue_may_have_times_of_its_own(store: Store, clock: Clock) -> None:
    register(store, queues=("q", "brief"))
    finish_three(store)
    finish_three(store, "brief")
    info = store.set_queue("brief", retention={"complete": 10.0, "failed": 1000.0})
    assert info.retention == {"complete": 10.0, "failed": 1000.0}
    clock.advance(11)
    assert forget_all(store) == 1
    assert store.get(["brief-complete"]) == [None]
    clock.advance(500)
    forget_all(store)
    assert counts(store) == {}
    assert counts(store, "brief") == {"failed": 1}


def test_what_a_queue_keeps_can_be_changed_and_left_to_others(store: Store) -> None:
    store.set_queue("q", retention={"complete": 10.0, "log": 5.5})
    store.set_queue("q", limit=3)
    assert store.queues(["q"])[0].retention == {"complete": 10.0, "log": 5.5}
    store.set_queue("q", retention={"complete": None, "result": 1.0})
    info = store.queues(["q"])[0]
    assert (info.retention, info.limit) == ({"log": 5.5, "result": 1.0}, 3)
    store.set_queue("q", retention={"log": None, "result": None})
    assert store.queues(["q"])[0].retention == {}


def test_what_nobody_limits_is_kept(store: Store, clock: Clock) -> None:
    register(store)
    finish_three(store)
    clock.advance(1e9)
    assert forget_all(store, {}) == 0
    assert forget_all(store, {"failed": 5.0}) == 1


def test_what_has_not_ended_is_kept(store: Store, clock: Clock) -> None:
    register(store)
    started(store, id="started")
    taken(store, id="reserved")
    submit(store, new("pending"), new("scheduled", delay=1e9))
    clock.advance(1e8)
    assert forget_all(store) == 0
    assert all(store.get(["started", "reserved", "pending", "scheduled"]))


def test_it_goes_in_small_portions(store: Store, clock: Clock) -> None:
    for id in fill(store, 7):
        control.cancel(store, id)
    clock.advance(1000)
    portions = []
    while number := store.forget(USUAL, 3):
        portions.append(number)
    assert portions == [3, 3, 1]


def test_the_ids_stay_refused(store: Store, clock: Clock) -> None:
    register(store)
    finish_three(store)
    clock.advance(1000)
    forget_all(store)
    [answer] = store.submit([new("q-complete")])
    assert not answer.fresh
    assert answer.purged


def logged(store: Store, id: str, number: int, beats: int) -> None:
    task = started(store, id=id)
    log = (LogPiece(0, b"line\n" * number),)
    beat(store, "w", beats, Report(id=id, attempt=task.attempt, log=log))
    apply(store, replace(task), Done({"n": "x" * 2000}))


def test_logs_go_before_their_tasks(store: Store, clock: Clock) -> None:
    register(store)
    logged(store, "old", 3, 2)
    clock.advance(30)
    logged(store, "young", 3, 3)
    clock.advance(30)
    keep: dict[Kept, float] = {"complete": 1000.0, "log": 50.0}
    assert forget_all(store, keep) == 1
    assert store.log("old", 1, 0, 100) == []
    assert store.log("young", 1, 0, 100)[0].data == b"line\n" * 3
    assert get(store, "old").result == {"n": "x" * 2000}
    clock.advance(30)
    assert forget_all(store, keep) == 1
    assert store.log("young", 1, 0, 100) == []
    assert forget_all(store, keep) == 0
    assert counts(store) == {"complete": 2}


def test_results_go_before_their_tasks(store: Store, clock: Clock) -> None:
    register(store)
    logged(store, "long", 3, 2)
    apply(store, taken(store, id="short"), Done("short"))
    apply(store, taken(store, id="bytes"), Done(b"\xff"))
    clock.advance(60)
    store.set_queue("q", retention={"result": 50.0})
    assert forget_all(store, {}) == 3
    assert [get(store, id).result for id in ("long", "short", "bytes")] == [None, None, None]
    assert store.log("long", 1, 0, 100)
    assert get(store, "long").state == "complete"
    assert forget_all(store, {}) == 0


def test_a_result_that_another_needs_goes_when_none_does(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("first"), new("then", after=("first",), held=True))
    apply(store, take_one(store), Done("needed"))
    apply(store, taken(store, id="plain"), Done("not needed"))
    clock.advance(60)
    store.set_queue("q", retention={"result": 50.0})
    forget_all(store, {})
    assert [get(store, id).result for id in ("first", "plain")] == ["needed", None]
    # When the other one has ended
    control.cancel(store, "then")
    # Then the result goes, though younger ones went before, and is not looked for again
    assert forget_all(store, {}) == 1
    assert get(store, "first").result is None
    clock.advance(60)
    forget_all(store, {})
    assert forget_all(store, {}) == 0


def test_a_needed_result_of_a_second_life_is_kept_as_long(store: Store, clock: Clock) -> None:
    register(store)
    submit(store, new("first"), new("then", after=("first",), held=True))
    apply(store, take_one(store), Done("old"))
    clock.advance(60)
    store.set_queue("q", retention={"result": 50.0})
    forget_all(store, {})
    edit_control.retry(store, "first")
    apply(store, take_one(store), Done("new"))
    control.cancel(store, "then")
    clock.advance(40)
    assert forget_all(store, {}) == 0
    assert get(store, "first").result == "new"
    clock.advance(20)
    forget_all(store, {})
    assert get(store, "first").result is None


def test_many_that_ended_at_once_lose_their_logs_all(store: Store, clock: Clock) -> None:
    register(store)
    names = [f"t{number}" for number in range(7)]
    for number, name in enumerate(names):
        logged(store, name, 1, number + 2)
    clock.advance(60)
    keep: dict[Kept, float] = {"log": 50.0}
    while store.forget(keep, 2):
        pass
    assert [store.log(name, 1, 0, 100) for name in names] == [[]] * 7


def test_a_log_of_a_second_life_is_kept_as_long(store: Store, clock: Clock) -> None:
    register(store)
    logged(store, "a", 3, 2)
    clock.advance(60)
    keep: dict[Kept, float] = {"log": 50.0}
    assert forget_all(store, keep) == 1
    edit_control.retry(store, "a")
    [again] = take(store)
    again = apply(store, again, Start(pid=1))
    beat(store, "w", 3, Report(id="a", attempt=2, log=(LogPiece(0, b"more"),)))
    apply(store, again, Done())
    clock.advance(40)
    assert forget_all(store, keep) == 0
    assert store.log("a", 2, 0, 100)[0].data == b"more"
    clock.advance(20)
    assert forget_all(store, keep) == 1
    assert store.log("a", 2, 0, 100) == []


def test_the_newest_task_of_a_schedule_is_kept(store: Store, clock: Clock) -> None:
    schedule = store.put_schedule(Schedule(name="s", cron="* * * * *", task=new("-")))
    for id in ("first", "second"):
        schedule = store.schedules(["s"])[0]
        last = (schedule.last or 0) + 60
        fired = Firing(
            name="s", updated=schedule.updated, seen=schedule.last, last=last, next=None,
            tasks=(new(id),),
        )  # fmt: skip
        assert store.fire(fired)
        control.cancel(store, id)
    clock.advance(1e6)
    assert forget_all(store) == 1
    assert get(store, "second").state == "cancelled"
    assert store.purge(None, ["cancelled"], clock.now, 10) == []
    store.drop_schedule("s")
    assert forget_all(store) == 1
