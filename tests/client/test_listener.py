"""Listener: claiming tasks, keeping their lease, losing it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from stayer import (
    BadInput,
    Client,
    Handles,
    LeaseLost,
    Listener,
    Refused,
    StoreUnreachable,
    Task,
    TaskHandle,
)
from stayer.core.model import Value
from stayer.core.worker_model import Beat
from tests.client.actors import (
    PATIENCE,
    claim,
    declare_lost,
    hear,
    process,
    submit,
    take,
    thread,
    until,
)


def asleep(listener: Listener) -> bool:
    """Whether a thread sleeps in `listen`, having looked for a task."""
    return bool(listener._waiters)


def test_listening_claims_a_task_for_this_process(client: Client) -> None:
    id = client.get_queue("q").enqueue({"n": 1})
    with client.get_listener("q", node="here") as listener:
        task = take(listener)
        assert (task.id, task.state, task.attempt) == (id, "reserved", 1)
        assert (task.worker, task.node) == (listener.worker.id, "here")
        [worker] = client.workers()
        assert (worker.id, worker.pid, worker.queues) == (listener.worker.id, os.getpid(), ("q",))
        assert worker.state == "PROCESSING"
    assert client.workers() == []


def test_listening_ends_when_the_time_is_over(client: Client) -> None:
    with client.get_listener("q") as listener:
        begun = time.monotonic()
        assert listener.listen(0) is None
        assert listener.listen("50ms") is None
        assert 0.05 <= time.monotonic() - begun < 5


def test_queues_are_taken_from_in_the_order_given(client: Client) -> None:
    for name in ("b", "a", "c"):
        client.get_queue(name).enqueue(name, priority=5 if name == "b" else 0)
    with client.get_listener(["a", "b", "a"]) as listener:
        assert [take(listener).queue, take(listener).queue] == ["a", "b"]
        assert listener.listen(0) is None


def test_only_what_is_handled_is_taken(client: Client) -> None:
    queue = client.get_queue("q")
    plain, command = queue.enqueue(1), queue.enqueue(command=["ls"])
    video, sound = queue.enqueue(name="video.encode"), queue.enqueue(name="sound.encode")
    with client.get_listener("q", names="video.*") as listener:
        assert take(listener).id == video
        assert listener.listen(0) is None
    with client.get_listener("q", names=["video.*", "sound.*"]) as listener:
        assert {take(listener).id, take(listener).id} == {video, sound}
    with client.get_listener("q", handles=Handles(plain=True, programs=("ls",))) as listener:
        assert {take(listener).id, take(listener).id} == {plain, command}
        assert listener.listen(0) is None


def test_a_listener_that_makes_no_sense_is_refused(client: Client) -> None:
    with pytest.raises(BadInput, match="names or handles"):
        client.get_listener("q", names="x", handles=Handles())
    with pytest.raises(BadInput, match="queue"):
        client.get_listener([])
    with pytest.raises(BadInput, match="too short"):
        client.get_listener("q", lease="1s")


def test_a_sleeping_listener_is_woken_by_another_process(client: Client, url: str) -> None:
    with (
        client.get_listener("q") as listener,
        process(submit, url, {}) as (line, _),
        thread(lambda: take(listener).parameters) as taken,
    ):
        hear(line)
        until(lambda: asleep(listener))
        line.send("go")
        assert taken() == "from elsewhere"


def test_a_sleeping_listener_hears_of_a_task_that_will_be_due(client: Client, url: str) -> None:
    with (
        client.get_listener("q") as listener,
        process(submit, url, {"delay": 0.2}) as (line, _),
        thread(lambda: take(listener)) as taken,
    ):
        hear(line)
        until(lambda: asleep(listener))
        line.send("go")
        task = taken()
        assert task.eta is not None
        assert task.eta <= client.store.now() < task.eta + 30


def test_a_sleeping_listener_hears_that_its_queue_was_resumed(client: Client) -> None:
    queue = client.get_queue("q")
    queue.enqueue(1)
    queue.pause()
    with client.get_listener("q") as listener, thread(lambda: take(listener)) as taken:
        until(lambda: asleep(listener))
        queue.resume()
        assert taken().parameters == 1


def test_a_due_task_is_taken_although_others_are_waiting(client: Client) -> None:
    queue = client.get_queue("q")
    queue.enqueue_many(range(10))
    queue.enqueue("urgent", priority=1, delay=0.05)
    until(lambda: client.store.now() > client.get_task(next(client.find()).id).created + 0.1)
    with client.get_listener("q") as listener:
        assert take(listener).parameters == "urgent"


def test_iterating_gives_tasks_until_another_thread_closes_the_listener(client: Client) -> None:
    client.get_queue("q").enqueue_many([1, 2, 3])
    listener = client.get_listener("q")

    def work() -> list[Any]:
        seen = []
        for task in listener:
            with client.get_processor(task) as processor:
                seen.append(processor.parameters)
        return seen

    with thread(work) as worked:
        until(lambda: client.get_queue("q").count("complete") == 3)
        until(lambda: asleep(listener))
        listener.close()
        assert worked() == [1, 2, 3]


def test_closing_gives_back_what_is_held(client: Client) -> None:
    id = client.get_queue("q").enqueue(1)
    with client.get_listener("q") as listener:
        client.get_processor(take(listener)).start()
    task = client.get_task(id)
    assert (task.state, task.interruptions, task.failures) == ("pending", 1, 0)
    assert [attempt.ending for attempt in task.attempts()] == ["interrupted"]
    listener.close()
    assert listener.closed
    with pytest.raises(Refused, match="closed"):
        listener.listen(0)
    assert list(listener) == []


def test_closing_the_client_closes_its_listeners(url: str, client: Client) -> None:
    id = client.get_queue("q").enqueue(1)
    with Client(url) as other:
        take(other.get_listener("q"))
        assert client.get_task(id).state == "reserved"
    assert client.get_task(id).state == "pending"


def test_a_claimed_task_can_be_given_back_by_its_listener(client: Client) -> None:
    client.get_queue("q").enqueue(1)
    with client.get_listener("q") as listener:
        first = take(listener)
        listener.give_back(first)
        again = take(listener)
        assert (again.id, again.attempt) == (first.id, 2)


def test_several_threads_may_listen_at_once(client: Client) -> None:
    with (
        client.get_listener("q") as listener,
        thread(lambda: take(listener)) as one,
        thread(lambda: take(listener)) as two,
    ):
        until(lambda: len(listener._waiters) == 2)
        ids = client.get_queue("q").enqueue_many([1, 2])
        assert {one().id, two().id} == set(ids)


def test_listeners_of_one_process_are_different_workers(client: Client) -> None:
    assert len({client.get_listener("q").worker.id for _ in range(50)}) == 50


def test_a_task_longer_than_the_lease_is_kept(client: Client) -> None:
    client.get_queue("q").enqueue(1)
    with client.get_listener("q", lease=2) as listener, client.get_listener("q", lease=2) as other:
        task = take(listener)
        other.listen(0)
        until(lambda: time.time() > task.created + 3)
        assert other.listen(0) is None
        assert task.refresh().worker == listener.worker.id
        assert not listener.lost


def test_what_a_killed_process_held_goes_to_another(client: Client, url: str) -> None:
    client.get_queue("q").enqueue("precious")
    with client.get_listener("q", lease=2) as listener:
        with process(claim, url, 2) as (line, other):
            held: Task = hear(line)
            other.kill()
            task = take(listener)
        assert (task.id, task.attempt) == (held.id, 2)
        assert [attempt.ending for attempt in task.attempts()] == ["lost", None]
        assert client.get_processor(task).start() == "precious"


def test_a_listener_that_lost_its_lease_says_so_and_is_of_no_more_use(client: Client) -> None:
    client.get_queue("q").enqueue(1)
    listener = client.get_listener("q")
    take(listener)
    declare_lost(client, listener)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="get another listener"):
            listener.listen(0)
    assert listener.lost
    with client.get_listener("q") as another:
        task = take(another)
        listener.close()
        assert task.refresh().worker == another.worker.id


def test_a_sleeping_listener_that_loses_its_lease_wakes_up(client: Client) -> None:
    listener = client.get_listener("q", lease=2)
    with thread(lambda: listener.listen(PATIENCE)) as listened:
        until(lambda: asleep(listener))
        until(lambda: _declared_lost(client, listener))
        with pytest.raises(LeaseLost):
            listened()


def _declared_lost(client: Client, listener: Listener) -> bool:
    declare_lost(client, listener)  # unless it beats just then
    return listener.worker.id not in [worker.id for worker in client.workers()]


def test_a_task_whose_claim_got_no_answer_is_handed_out_later(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, lost = client.get_queue("q").enqueue_many([1, 2])
    reserve = client.store.reserve

    def breaks(worker: str, queues: Sequence[str], limit: int, handles: Handles) -> list[Task]:
        reserve(worker, queues, limit, handles)
        raise StoreUnreachable("the line is dead")

    with client.get_listener("q") as listener:
        assert take(listener).id == known
        with monkeypatch.context() as patch:
            patch.setattr(client.store, "reserve", breaks)
            with pytest.raises(StoreUnreachable):
                listener.listen()
        task = take(listener)
        assert (task.id, task.attempt) == (lost, 1)
        assert listener.listen(0) is None


def test_a_task_that_could_not_be_given_back_is_handed_out_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(changes: object) -> list[Task | None]:
        raise StoreUnreachable("the line is dead")

    client.get_queue("q").enqueue(1)
    with client.get_listener("q") as listener:
        task = take(listener)
        with monkeypatch.context() as patch:
            patch.setattr(client.store, "commit", breaks)
            with pytest.raises(StoreUnreachable):
                listener.give_back(task)
        again = take(listener)
        assert (again.id, again.attempt) == (task.id, 1)


def test_what_others_finish_is_not_remembered_for_ever(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stayer.client.listener.RECONCILE_EVERY", 3)
    client.get_queue("q").enqueue_many(range(20))
    with Client(url) as other, client.get_listener("q") as listener:
        held = take(listener)
        for _ in range(19):
            other.get_processor(take(listener).record).complete()
            assert len(listener._given) <= 3
        assert listener.listen(0) is None
        assert held.refresh().state == "reserved"


def test_a_listener_that_could_not_register_tries_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*arguments: object) -> Beat:
        raise StoreUnreachable("the line is dead")

    id = client.get_queue("q").enqueue(1)
    with client.get_listener("q") as listener:
        with monkeypatch.context() as patch:
            patch.setattr(client.store, "beat", breaks)
            with pytest.raises(StoreUnreachable):
                listener.listen()
        assert take(listener).id == id


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_the_listener_to_its_parent(client: Client) -> None:
    id = client.get_queue("q").enqueue(1)
    with client.get_listener("q") as listener:
        take(listener)
        pid = os.fork()
        if pid == 0:
            try:
                with pytest.raises(Refused, match="fork"):
                    listener.listen(0)
                listener.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.get_task(id).state == "reserved"


@pytest.mark.parametrize("queues", ["", "\n", [], [""], ["good", 5], None, 5])
def test_a_listener_needs_names_of_queues(client: Client, queues: Any) -> None:
    with pytest.raises(BadInput):
        client.get_listener(queues)
    with pytest.raises(BadInput):
        client.get_listener("q", names=[5])  # type: ignore[list-item]


def test_a_function_is_called_with_each_task_until_the_listener_is_closed(client: Client) -> None:
    client.get_queue("q").enqueue_many([1, 2, 3])
    listener = client.get_listener("q")
    seen: list[object] = []

    def on_new_task(task: TaskHandle[Value]) -> None:
        seen.append(task.parameters)
        with client.get_processor(task):
            pass
        if len(seen) == 3:
            listener.close()

    assert listener.listen(on_new_task) is None
    assert seen == [1, 2, 3]


def test_a_function_that_raises_ends_the_listening(client: Client) -> None:
    id = client.get_queue("q").enqueue(1)

    def fail(task: TaskHandle[Value]) -> None:
        raise ValueError(task.id)

    with client.get_listener("q") as listener, pytest.raises(ValueError, match=id):
        listener.listen(fail)
    assert client.get_task(id).state == "pending"


def test_a_task_that_nobody_begins_is_warned_of(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    queue = client.get_queue("q")
    lost, begun, elsewhere, given_back = queue.enqueue_many(range(4))
    listener = client.get_listener("q", lease=2)
    tasks = {task.id: task for task in (take(listener) for _ in range(4))}
    # Given one that is worked on, one that another process has begun, and one that was given back
    client.get_processor(tasks[begun])
    with Client(client.store.url) as another:
        another.get_processor(tasks[elsewhere].record).start()
    listener.give_back(tasks[given_back])
    client.get_task(given_back).cancel()

    def warned() -> list[str]:
        return [each.getMessage() for each in caplog.records if "nobody has begun" in each.message]

    # When the listener goes on listening for longer than its lease
    until(lambda: listener.listen(timeout=0.1) is None and warned())

    # Then it says which one was lost, once
    assert listener.listen(timeout=0.5) is None
    [said] = warned()
    assert lost in said
    assert "give_back" in said
    assert client.get_task(lost).state == "reserved"
    listener.close()
    assert client.get_task(lost).state == "pending"
