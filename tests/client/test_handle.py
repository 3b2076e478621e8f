"""Client and TaskHandle: reading tasks, waiting for them, changing them."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from stayer import (
    BadConfig,
    BadInput,
    Client,
    Refused,
    Task,
    TaskCancelled,
    TaskFailed,
    TaskHandle,
    UnknownTask,
    WaitTimeout,
)
from stayer.core import codec
from stayer.core.fields import POLICY, RECORD
from tests.client.actors import hear, process, take, thread, work

FIELDS = (*RECORD, *POLICY)
"""All that JSON shows of a task."""


@pytest.fixture
def task(client: Client) -> TaskHandle[Any]:
    return client.get_task(client.get_queue("q").enqueue({"n": 1}))


def finish(client: Client, verb: str, *arguments: object) -> None:
    with client.get_listener("q") as listener:
        processor = client.get_processor(take(listener))
        processor.start()
        getattr(processor, verb)(*arguments)


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_of_the_record_can_be_read_and_none_written(
    task: TaskHandle[Any], field: str
) -> None:
    shown = codec.record(task.record)
    home = task.record if field in Task.__struct_fields__ else task.policy
    assert field in shown
    assert getattr(task, field) == getattr(home, field)
    with pytest.raises(AttributeError):
        setattr(task, field, None)


def test_a_task_that_is_not_there_is_unknown(client: Client) -> None:
    with pytest.raises(UnknownTask, match="nothing"):
        client.get_task("nothing")


def test_a_handle_shows_what_was_when_it_was_read(client: Client, task: TaskHandle[Any]) -> None:
    client.get_task(task.id).cancel()
    assert (task.state, task.finished) == ("pending", False)
    assert task.refresh() is task
    assert (task.state, task.finished) == ("cancelled", True)


def test_a_result_is_there_once_the_task_is_complete(client: Client, task: TaskHandle[Any]) -> None:
    assert task.result is None
    finish(client, "complete", {"answer": 42})
    assert task.refresh().result == {"answer": 42}
    assert task.wait(0) == {"answer": 42}


def test_waiting_ends_when_another_process_completes_the_task(
    client: Client, url: str, task: TaskHandle[Any]
) -> None:
    with client.get_listener("q") as listener, process(work, url, take(listener).record) as other:
        line, _ = other
        with thread(task.wait) as result:
            line.send(("complete", "done there"))
            assert result() == "done there"
        assert hear(line) is None


def test_waiting_for_a_failed_task_raises_what_went_wrong(
    client: Client, task: TaskHandle[Any]
) -> None:
    finish(client, "fail", ValueError("no good"))
    with pytest.raises(TaskFailed, match="ValueError: no good") as caught:
        task.wait()
    assert caught.value.error == task.error
    assert task.result is None


def test_waiting_for_a_cancelled_task_says_so(client: Client, task: TaskHandle[Any]) -> None:
    task.cancel()
    with pytest.raises(TaskCancelled, match=task.id):
        task.wait()


def test_waiting_ends_when_the_time_is_over(task: TaskHandle[Any]) -> None:
    begun = time.monotonic()
    with pytest.raises(WaitTimeout, match=task.id):
        task.wait("50ms")
    assert 0.05 <= time.monotonic() - begun < 5
    assert not task.ends_within(0)


def test_waiting_for_a_task_that_is_deleted_meanwhile_ends(
    client: Client, task: TaskHandle[Any]
) -> None:
    client.get_task(task.id).cancel().delete()
    with pytest.raises(UnknownTask):
        task.wait()


def test_a_finished_task_can_be_retried(client: Client, task: TaskHandle[Any]) -> None:
    with pytest.raises(Refused):
        task.retry()
    finish(client, "fail", "no good")
    assert task.retry().state == "pending"
    finish(client, "complete", 1)
    assert task.wait(0) == 1
    assert [attempt.ending for attempt in task.attempts()] == ["error", "done"]


def test_a_held_task_is_not_taken_until_released(client: Client, task: TaskHandle[Any]) -> None:
    assert task.hold().held
    with client.get_listener("q") as listener:
        assert listener.listen(0) is None
        assert not task.release().held
        assert take(listener).id == task.id


def test_a_deleted_task_is_gone(task: TaskHandle[Any]) -> None:
    with pytest.raises(Refused):
        task.delete()
    task.cancel().delete()
    with pytest.raises(UnknownTask):
        task.refresh()


def test_events_tell_the_story(client: Client, task: TaskHandle[Any]) -> None:
    finish(client, "complete")
    events = [event.event for event in task.events()]
    assert events == ["pending", "reserved", "started", "complete"]


def test_tasks_are_found_by_what_they_are(client: Client) -> None:
    queue, other = client.get_queue("q"), client.get_queue("other")
    a = queue.enqueue(1, name="x", tags=["t"], owner="grace")
    b = queue.enqueue(2, held=True)
    c = other.enqueue(3, delay="1h")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, [c, b, a]),
        ({"queues": "q"}, [b, a]),
        ({"queues": ["q", "other"], "states": "scheduled"}, [c]),
        ({"name": "x", "tags": "t"}, [a]),
        ({"owner": "grace"}, [a]),
        ({"held": True}, [b]),
        ({"ids": (a, c)}, [c, a]),
        ({"prefix": b}, [b]),
        ({"since": time.time() + 3600}, []),
        ({"until": "2020-01-01"}, []),
    ]
    for condition, ids in cases:
        assert [task.id for task in client.find(**condition)] == ids, condition
    with pytest.raises(BadInput, match="no state"):
        client.find(states="asleep")  # type: ignore[arg-type]


def test_all_tasks_are_found_however_many(client: Client) -> None:
    ids = client.get_queue("q").enqueue_many(range(1200))
    assert {task.id for task in client.find()} == set(ids)


def test_a_handle_stays_in_its_process_but_its_record_travels(task: TaskHandle[Any]) -> None:
    assert pickle.loads(pickle.dumps(task.record)) == task.record
    with pytest.raises(TypeError, match="record"):
        pickle.dumps(task)


def test_handles_and_clients_show_what_they_are(
    client: Client, url: str, task: TaskHandle[Any]
) -> None:
    assert repr(task) == f"<TaskHandle {task.id} of queue q: pending>"
    assert repr(client) == f"<Client of {url}>"
    assert "q" in repr(client.get_queue("q"))


def test_a_password_never_shows(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked:
        url = "db://ada@host/tasks"

        def setup(self) -> None:
            pass

    monkeypatch.setattr("stayer.client.client.open_store", lambda url, token: Locked())
    assert "hunter2" not in repr(vars(Client("db://ada:hunter2@host/tasks")))
    monkeypatch.undo()
    with pytest.raises(BadConfig) as caught:
        Client("db://ada:hunter2@host/tasks")
    assert "hunter2" not in str(caught.value)


def test_without_a_url_the_store_is_the_configured_one(
    url: str, client: Client, task: TaskHandle[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_STORE", url)
    with Client() as configured:
        assert configured.get_task(task.id).parameters == {"n": 1}


def test_a_retry_may_begin_from_the_start(client: Client, task: TaskHandle[Any]) -> None:
    finish(client, "fail", "no good")
    assert task.retry(from_start=True).events()[-1].note == "retried from the start"
    task.cancel()
    assert task.retry().events()[-1].note == "retried"
