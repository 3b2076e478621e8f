"""Processor: working on a claimed task, and being refused once it is no longer held."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from stayer import (
    BadInput,
    Client,
    Fault,
    Listener,
    NotHeld,
    Processor,
    Refused,
    TaskHandle,
    TooLarge,
)
from tests.client.actors import declare_lost, hear, process, take, until, work


@pytest.fixture
def listener(client: Client) -> Iterator[Listener]:
    with client.get_listener("q") as listener:
        yield listener


@pytest.fixture
def task(client: Client, listener: Listener) -> TaskHandle[Any]:
    client.get_queue("q").enqueue({"n": 1})
    return take(listener)


@pytest.fixture
def processor(client: Client, task: TaskHandle[Any]) -> Processor:
    return client.get_processor(task)


def test_starting_gives_the_parameters(processor: Processor, task: TaskHandle[Any]) -> None:
    assert processor.start() == processor.parameters == {"n": 1}
    assert (task.state, task.pid) == ("started", os.getpid())
    with pytest.raises(Refused):
        processor.start()


def test_the_pid_may_be_another_ones(processor: Processor, task: TaskHandle[Any]) -> None:
    processor.start(pid=1234)
    assert task.refresh().pid == 1234


@pytest.mark.parametrize("result", [None, 0, "", {"a": [1]}, b"raw"])
def test_a_completed_task_is_complete_whatever_its_result(
    processor: Processor, task: TaskHandle[Any], result: Any
) -> None:
    processor.start()
    processor.complete(result)
    assert (task.refresh().state, task.result, task.error) == ("complete", result, None)


def test_a_failure_is_told_by_a_message(processor: Processor, task: TaskHandle[Any]) -> None:
    processor.fail("disk \udcff full")
    assert task.refresh().state == "failed"
    assert task.error == Fault("Error", "disk \\udcff full")


def test_a_failure_is_told_by_an_exception_with_its_traceback(
    processor: Processor, task: TaskHandle[Any]
) -> None:
    class Mine(Exception):
        def __str__(self) -> str:
            raise ValueError

    try:
        raise Mine
    except Mine as error:
        processor.fail(error)
    fault = task.refresh().error
    assert fault is not None
    assert fault.type.endswith(".Mine")
    assert fault.message
    assert fault.traceback is not None
    assert "test_processor.py" in fault.traceback


def test_a_failure_is_told_by_a_fault(processor: Processor, task: TaskHandle[Any]) -> None:
    fault = Fault("Exit", "it left", exit_code=3)
    processor.fail(fault)
    assert task.refresh().error == fault


def test_a_failure_is_told_by_nothing_else(processor: Processor) -> None:
    with pytest.raises(BadInput, match="give a message"):
        processor.fail(7)  # type: ignore[arg-type]


def test_a_failed_task_with_retries_left_is_run_again(client: Client, listener: Listener) -> None:
    client.get_queue("q").enqueue(1, retries=1, retry_wait=0)
    for state in ("pending", "failed"):
        task = take(listener)
        client.get_processor(task).fail("no good")
        assert task.refresh().state == state


def test_a_task_given_back_is_free_of_charge(processor: Processor, task: TaskHandle[Any]) -> None:
    processor.start()
    processor.give_back()
    assert task.refresh().state == "pending"
    assert (task.failures, task.interruptions, task.worker) == (0, 1, None)


def test_a_snoozed_task_is_due_later(
    client: Client, processor: Processor, task: TaskHandle[Any]
) -> None:
    processor.start()
    processor.snooze("10m")
    assert task.refresh().state == "scheduled"
    assert task.eta == pytest.approx(client.store.now() + 600, abs=30)
    assert (task.ending, task.failures) == ("snoozed", 0)


def test_a_cancel_is_seen_and_confirmed(
    client: Client, processor: Processor, task: TaskHandle[Any]
) -> None:
    processor.start()
    assert not processor.cancelled
    client.get_task(task.id).cancel()
    until(lambda: processor.cancelled)
    processor.stopped()
    assert (task.refresh().state, task.ending) == ("cancelled", "cancelled")


def test_a_cancel_that_came_before_the_news_of_it_can_be_confirmed(
    client: Client, processor: Processor, task: TaskHandle[Any]
) -> None:
    client.get_task(task.id).cancel()
    processor.stopped()
    assert task.refresh().state == "cancelled"


def test_what_nobody_cancelled_can_not_be_stopped(
    processor: Processor, task: TaskHandle[Any]
) -> None:
    with pytest.raises(Refused, match="nobody has cancelled"):
        processor.stopped()
    assert task.refresh().state == "reserved"


def test_a_cancelled_task_that_is_done_all_the_same_is_complete(
    client: Client, processor: Processor, task: TaskHandle[Any]
) -> None:
    client.get_task(task.id).cancel()
    processor.complete("done")
    assert task.refresh().result == "done"


def test_progress_reaches_the_record_with_the_next_beat(
    client: Client, listener: Listener, processor: Processor, task: TaskHandle[Any]
) -> None:
    processor.start()
    processor.progress(1, 4)
    processor.progress(2, 4, "half way")
    assert listener.heartbeat is not None
    listener.heartbeat.beat_now()
    progress = task.refresh().progress
    assert progress is not None
    assert (progress.done, progress.total, progress.message) == (2, 4, "half way")
    assert progress.remaining is not None


def test_what_remains_is_unknown_at_first(
    listener: Listener, processor: Processor, task: TaskHandle[Any]
) -> None:
    processor.progress(1, 4)
    assert listener.heartbeat is not None
    listener.heartbeat.beat_now()
    progress = task.refresh().progress
    assert progress is not None
    assert progress.remaining is None


def test_a_checkpoint_is_stored_when_the_call_returns(
    client: Client, listener: Listener, processor: Processor, url: str
) -> None:
    assert processor.restore() is None
    processor.start()
    processor.checkpoint(b"half")
    with Client(url) as other:
        found = other.store.checkpoint(processor.task.id)
    assert found is not None
    assert found.data == b"half"
    processor.give_back()
    assert client.get_processor(take(listener)).restore() == b"half"


def test_a_checkpoint_over_the_limit_is_refused(processor: Processor) -> None:
    with pytest.raises(TooLarge, match="16 MB"):
        processor.checkpoint(bytes(16_000_001))


def test_what_is_over_is_refused(processor: Processor) -> None:
    processor.complete()
    for call in (
        processor.complete,
        lambda: processor.fail("late"),
        processor.give_back,
        lambda: processor.progress(1),
        lambda: processor.checkpoint(b"late"),
        lambda: processor.cancelled,
    ):
        with pytest.raises(NotHeld, match="completed by this processor already"):
            call()


def test_what_its_listener_gave_back_on_closing_is_refused(
    listener: Listener, processor: Processor
) -> None:
    listener.close()
    for call in (processor.complete, lambda: processor.progress(1), lambda: processor.cancelled):
        with pytest.raises(NotHeld, match="no longer held by attempt 1"):
            call()


def test_what_nobody_holds_has_no_processor(client: Client) -> None:
    id = client.get_queue("q").enqueue(1)
    with pytest.raises(NotHeld, match="pending"):
        client.get_processor(client.get_task(id))
    with pytest.raises(NotHeld, match="cancelled"):
        client.get_processor(client.get_task(id).cancel())


def test_a_zombie_can_not_touch_what_another_has_taken(
    client: Client, listener: Listener, processor: Processor, task: TaskHandle[Any]
) -> None:
    # Given a task that was taken from a worker believed dead, and given to another
    processor.start()
    declare_lost(client, listener)
    with client.get_listener("q") as another:
        second = take(another)
        # When the first worker goes on as if nothing had happened
        for call in (
            lambda: processor.checkpoint(b"late"),
            lambda: processor.complete("late"),
            lambda: processor.fail("late"),
            processor.give_back,
            lambda: processor.snooze(1),
            lambda: processor.progress(1),
            lambda: processor.cancelled,
        ):
            # Then it is told what it no longer holds
            with pytest.raises(NotHeld, match=f"{task.id} is no longer held by attempt 1"):
                call()
        # And nothing has changed
        assert (second.refresh().state, second.attempt) == ("reserved", 2)
        assert client.get_processor(second).restore() is None
        client.get_processor(second).complete("in time")
        assert task.refresh().result == "in time"


def test_a_late_result_is_welcome_while_nobody_else_has_begun(
    client: Client, listener: Listener, processor: Processor, task: TaskHandle[Any]
) -> None:
    processor.start()
    declare_lost(client, listener)
    assert task.refresh().state == "pending"
    processor.complete("late, but here")
    assert task.refresh().result == "late, but here"


def test_a_task_can_be_worked_on_in_another_process(
    client: Client, url: str, task: TaskHandle[Any]
) -> None:
    with process(work, url, task.record) as (line, other):
        line.send(("start",))
        assert hear(line) == {"n": 1}
        assert task.refresh().pid == other.pid
        line.send(("restore",))
        assert hear(line) is None
        line.send(("progress", 1))
        assert "process that listens" in str(hear(line))
        line.send(("complete", {"by": "another"}))
        assert hear(line) is None
        assert task.refresh().result == {"by": "another"}


def test_another_process_hears_of_a_cancel(client: Client, url: str, task: TaskHandle[Any]) -> None:
    with process(work, url, task.record) as (line, _):

        def cancelled() -> bool:
            line.send(("cancelled",))
            return bool(hear(line))

        assert not cancelled()
        client.get_task(task.id).cancel()
        until(cancelled)
        line.send(("stopped",))
        assert hear(line) is None
        assert task.refresh().state == "cancelled"


def test_another_process_is_refused_what_is_no_longer_held(
    client: Client, url: str, listener: Listener, task: TaskHandle[Any]
) -> None:
    with process(work, url, task.record) as (line, _):
        line.send(("start",))
        hear(line)
        listener.give_back(task)
        take(listener)
        for order in (("cancelled",), ("complete", "late"), ("fail", "late"), ("give_back",)):
            line.send(order)
            error = hear(line)
            assert isinstance(error, NotHeld)
            assert "no longer held by attempt 1" in str(error)


def test_a_handle_read_afresh_has_a_processor_too(client: Client, task: TaskHandle[Any]) -> None:
    client.get_processor(client.get_task(task.id)).complete(5)
    assert task.wait(0) == 5


def test_as_a_context_it_starts_and_completes(client: Client, task: TaskHandle[Any]) -> None:
    with client.get_processor(task) as processor:
        assert task.state == "started"
        assert processor.parameters == {"n": 1}
    assert (task.refresh().state, task.result) == ("complete", None)


def test_as_a_context_it_leaves_alone_what_was_settled(
    client: Client, task: TaskHandle[Any]
) -> None:
    with client.get_processor(task) as processor:
        processor.complete("mine")
    assert task.refresh().result == "mine"


def test_as_a_context_it_fails_with_the_exception(client: Client, task: TaskHandle[Any]) -> None:
    with pytest.raises(ZeroDivisionError), client.get_processor(task):
        _ = 1 / 0
    assert task.refresh().state == "failed"
    assert task.error is not None
    assert task.error.type == "ZeroDivisionError"


def test_as_a_context_it_fails_with_a_result_that_can_not_be_stored(
    client: Client, task: TaskHandle[Any]
) -> None:
    with pytest.raises(TooLarge), client.get_processor(task) as processor:
        processor.complete("x" * 1_000_001)
    assert task.refresh().state == "failed"


def test_as_a_context_it_gives_back_what_is_interrupted(
    client: Client, task: TaskHandle[Any]
) -> None:
    with pytest.raises(KeyboardInterrupt), client.get_processor(task):
        raise KeyboardInterrupt
    assert (task.refresh().state, task.failures) == ("pending", 0)


def test_as_a_context_it_says_that_the_task_is_no_longer_held(
    client: Client, listener: Listener, task: TaskHandle[Any]
) -> None:
    with pytest.raises(NotHeld), client.get_processor(task):
        listener.give_back(task)
    with pytest.raises(NotHeld), client.get_processor(take(listener)):
        listener.close()
