"""Tasks in threads: how they end, what they report, how they are stopped."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stayer.core.errors import Refused
from stayer.core.happenings import Ask
from stayer.core.lifecycle import decide
from stayer.core.model import NewTask, Policy
from stayer.core.submit.checks import new_task
from stayer.service.control import logs
from stayer.service.control import tasks as control
from stayer.service.explain import explain
from tests.faults.fleet import until
from tests.faults.pools import PoolFleet

FLEET = PoolFleet


def log_text(fleet: PoolFleet, id: str, attempt: int = 1) -> str:
    return b"".join(piece.data for piece in logs.read(fleet.store, id, attempt)).decode()


def test_functions_end_as_they_do_in_processes(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=60)
    fleet.call("double", "double", n=4)
    fleet.call("double_async", "double_async", n=4)
    fleet.call("fail", "fail")
    fleet.call("exit 0", "leave", code=0)
    fleet.call("exit 3", "leave", code=3)
    fleet.call("large", "large", size=2_000_000)
    fleet.call("odd", "odd")
    fleet.call("wrong", "double", m=4)
    assert fleet.until_ended("double").result == 8
    assert fleet.until_ended("double_async").result == 8
    failed = fleet.until_ended("fail")
    assert failed.state == "failed"
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("ValueError", "out of cheese")
    assert "in fail" in (failed.error.traceback or "")
    assert "stayer/runners" not in (failed.error.traceback or "")
    assert fleet.until_ended("exit 0").state == "complete"
    left = fleet.until_ended("exit 3").error
    assert left is not None
    assert (left.type, left.exit_code) == ("ExitCode", 3)
    for id, said in (("large", "limit"), ("odd", "result"), ("wrong", "m")):
        task = fleet.until_ended(id)
        assert task.state == "failed"
        assert task.error is not None
        assert said in task.error.message


def test_the_history_has_the_start_of_what_is_not_over_at_once(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker()
    fleet.call("short", "double", n=4)
    fleet.call_stamper("long")
    assert fleet.until_ended("short").state == "complete"
    assert [event.event for event in fleet.store.events("short")] == [
        "pending", "reserved", "complete",
    ]  # fmt: skip
    assert fleet.until_state("long", "started").pid == fleet.pool_of(worker)
    fleet.finish("long")
    assert fleet.until_ended("long").started_at is not None
    assert [event.event for event in fleet.store.events("long")] == [
        "pending", "reserved", "started", "complete",
    ]  # fmt: skip


def test_a_failed_task_is_run_again_if_it_has_retries(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    fleet.call("a", "fail", options={"retries": 2, "retry_wait": 0.01})
    assert fleet.until_ended("a").failures == 3
    assert fleet.endings("a") == ["error", "error", "error"]


def test_a_name_that_the_app_does_not_have_is_nobodys(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    until(fleet.store.workers)
    fleet.call("a", "other.double")
    [reason] = explain(fleet.store, "a").reasons
    assert reason.reason == "no-handler"
    assert "or was 'double' meant?" in reason.text


def test_a_large_backlog_is_done_in_few_round_trips(fleet: PoolFleet) -> None:
    tasks: list[NewTask] = [
        new_task(queue="default", name=name, parameters={"n": number}, id=f"{name} {number}")
        for number in range(1000)
        for name in ("double", "double_async")
    ]
    fleet.store.submit(tasks)
    fleet.pool_worker(threads=16, lease=60)
    ids = [task.id for task in tasks]
    done = fleet.until_all_ended(ids)
    assert [task.result for task in done] == [2 * n for n in range(1000) for _ in range(2)]
    moments = {task.finished_at for task in done}
    assert len(moments) < len(done) / 4


@pytest.mark.parametrize("name", ["meet", "meet_in_threads"])
def test_as_many_as_there_are_threads_run_at_once(fleet: PoolFleet, name: str) -> None:
    fleet.pool_worker(threads=20)
    path = str(fleet.folder / "meeting")
    ids = [fleet.call(f"t{number}", name, path=path, number=20) for number in range(20)]
    assert {task.state for task in fleet.until_all_ended(ids)} == {"complete"}


def test_no_more_run_at_once_than_there_are_threads(fleet: PoolFleet) -> None:
    fleet.pool_worker(threads=2)
    for id in ("a", "b", "c"):
        fleet.call_stamper(id)
    fleet.until_stamped("a")
    fleet.until_stamped("b")
    fleet.until_state("a", "started")
    fleet.until_state("b", "started")
    assert fleet.get("c").attempt == 0
    fleet.finish("a")
    fleet.until_stamped("c")
    fleet.finish("b")
    fleet.finish("c")
    fleet.until_all_ended(["a", "b", "c"])


def test_what_waits_behind_slow_tasks_goes_to_another_worker(fleet: PoolFleet) -> None:
    fleet.pool_worker("one", threads=1)
    ids = [fleet.call(f"t{number}", "double", n=number) for number in range(500)]
    fleet.call_stamper("slow")
    late = [fleet.call(f"u{number}", "double", n=number) for number in range(20)]
    fleet.until_stamped("slow")
    until(lambda: all(fleet.get(id).state == "pending" for id in late), "for them to come back")
    fleet.pool_worker("two", threads=1)
    tasks = fleet.until_all_ended([*ids, *late])
    assert max(task.interruptions for task in tasks) <= 1
    assert fleet.get("slow").state == "started"
    fleet.finish("slow")
    assert fleet.until_ended("slow").attempt == 1


def test_log_and_progress_come_before_the_end(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=60)
    ids = [fleet.call(f"t{number}", "talk") for number in range(20)]
    for task in fleet.until_all_ended(ids):
        assert task.state == "complete"
        assert f"INFO a line of {task.id}" in log_text(fleet, task.id)
        assert task.progress is not None
        assert (task.progress.done, task.progress.total, task.progress.message) == (1, 4, "begun")
        assert not Path("/tmp", str(task.result)).exists()


def test_a_long_one_reports_with_the_beat_and_is_shown_as_started(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=3600)  # an answer that waits for the next beat would come too late
    fleet.call("a", "patient", path=str(fleet.stamps("a")))
    fleet.until_state("a", "started")
    control.stack(fleet.store, "a")
    until(lambda: "in patient" in log_text(fleet, "a"), "for its stack")
    assert fleet.get("a").state == "started"


def test_what_can_not_be_done_to_a_thread_is_refused(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=3600)
    fleet.call("a", "patient", path=str(fleet.stamps("a")))
    fleet.until_state("a", "started")
    for ask in (
        control.pause,
        control.resume,
        partial(control.signal, name="USR1"),
        partial(control.set, more_time=60),
    ):
        with pytest.raises(Refused, match="runs in a thread of worker"):
            ask(fleet.store, "a")
    assert control.set(fleet.store, "a", priority=3).priority == 3

    # Somebody who asked before the task had a worker that says so.
    fleet.store.commit([decide(fleet.get("a"), Ask("pause"))])
    until(lambda: "pause: not possible" in log_text(fleet, "a"))
    until(lambda: "refused" in [event.event for event in fleet.store.events("a")])
    [told] = [event for event in fleet.store.events("a") if event.event == "refused"]
    assert told.note == "pause: it runs in a thread"
    until(lambda: not fleet.get("a").orders)
    control.cancel(fleet.store, "a")
    assert fleet.until_ended("a").state == "cancelled"


def test_steps_and_checkpoints_are_there_in_the_next_attempt(fleet: PoolFleet) -> None:
    worker = fleet.pool_worker(lease=60)
    fleet.call(
        "a", "steps", path=str(fleet.stamps("a")), options={"retries": 1, "retry_wait": 0.01}
    )
    task = fleet.until_ended("a")
    assert task.result == [fleet.pool_of(worker), {"at": 7}]
    assert sorted(fleet.read_stamps("a")) == [1, 2]


@pytest.mark.parametrize("name", ["patient", "patient_async"])
def test_a_task_that_listens_is_cancelled(fleet: PoolFleet, name: str) -> None:
    fleet.pool_worker(lease=60)
    fleet.call("a", name, path=str(fleet.stamps("a")))
    fleet.until_stamped("a")
    control.cancel(fleet.store, "a")
    task = fleet.until_ended("a")
    assert (task.state, task.result) == ("cancelled", None)
    if name == "patient_async":
        assert len(fleet.read_stamps("a")[1]) == 2


def test_a_task_that_does_not_listen_is_done_in_spite_of_a_cancel(fleet: PoolFleet) -> None:
    fleet.pool_worker(lease=60)
    fleet.call_stamper("a")
    fleet.until_stamped("a")
    control.cancel(fleet.store, "a")
    until(lambda: all(order.acknowledged for order in fleet.get("a").orders))
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"


def test_a_time_limit_is_a_wish(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    fleet.call("a", "patient", path=str(fleet.stamps("a")), policy=Policy(time_limit=0.5))
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", "timeout")


def test_what_is_due_later_is_taken_then(fleet: PoolFleet) -> None:
    fleet.pool_worker()
    fleet.call("first", "double", n=1)
    fleet.until_ended("first")
    fleet.call("a", "double", n=2, options={"delay": 0.5})
    assert fleet.until_ended("a").result == 4


def test_the_limit_of_a_queue_holds_for_what_is_taken_ahead(fleet: PoolFleet) -> None:
    fleet.store.set_queue("default", limit=2)
    fleet.pool_worker(threads=8)
    path = str(fleet.stamps("naps"))
    ids = [fleet.call(f"t{number}", "nap", path=path) for number in range(5)]
    seen = 0

    def all_ended() -> bool:
        nonlocal seen
        # In one look: one after the other, who has ended meanwhile and who has begun both count.
        states = [task.state for task in fleet.store.get(ids) if task is not None]
        seen = max(seen, sum(state in ("reserved", "started") for state in states))
        return states == ["complete"] * len(ids)

    until(all_ended)
    assert 1 <= seen <= 2
