"""A listener that somebody wants to drain."""

from __future__ import annotations

import threading

import pytest

from stayer import Client
from stayer.core.errors import Refused
from stayer.service.control import workers as worker_control
from stayer.service.lease.heartbeat import Heartbeat
from tests.contract.builders import PATIENCE, fill
from tests.faults.fleet import until


def test_a_listener_that_is_told_to_drain_takes_no_more(client: Client) -> None:
    fill(client.store, 2)
    with client.get_listener("q") as listener:
        task = listener.listen(0)
        assert task is not None
        worker_control.drain(client.store, listener.worker.id)
        assert listener.heartbeat is not None
        listener.heartbeat.beat_now()
        with pytest.raises(Refused, match="drain"):
            listener.listen(0)
        listener.heartbeat.beat_now()
        assert client.store.workers()[0].state == "DRAINING"
        client.get_processor(task).complete("done")
    assert client.get_task(task.id).state == "complete"
    assert client.store.queues(["q"])[0].counts["pending"] == 1


def test_a_loop_over_tasks_ends_when_it_is_to_drain(client: Client) -> None:
    with client.get_listener("q") as listener:
        listening = threading.Thread(target=lambda: list(listener), daemon=True)
        listening.start()
        until(client.store.workers, "for the listener to register")
        worker_control.drain(client.store, listener.worker.id)
        listening.join(PATIENCE)
        assert not listening.is_alive()


def test_a_listener_takes_from_the_queues_that_an_operator_names(client: Client) -> None:
    with client.get_listener("a") as listener:
        heard: list[str] = []
        listening = threading.Thread(
            target=lambda: heard.extend(task.id for task in [listener.listen()] if task),
            daemon=True,
        )
        listening.start()
        until(client.store.workers, "for the listener to register")
        client.set_worker(listener.worker.id, add_queues="b")
        until(lambda: client.workers()[0].queues == ("a", "b"), "for it to say so")
        [id] = fill(client.store, 1, "b")
        listening.join(PATIENCE)
        assert heard == [id]


def test_what_an_operator_wants_while_a_listener_registers_is_seen(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Heartbeat.start

    def start_and_be_ordered(heartbeat: Heartbeat) -> None:
        start(heartbeat)
        client.set_worker(client.workers()[0].id, add_queues="b")
        heartbeat.beat_now()

    monkeypatch.setattr(Heartbeat, "start", start_and_be_ordered)
    with client.get_listener("a") as listener:
        assert listener.listen(0) is None
        assert listener.heartbeat is not None
        listener.heartbeat.beat_now()
        assert client.workers()[0].queues == ("a", "b")


def test_a_listener_that_is_to_stop_leaves_when_it_is_closed(client: Client) -> None:
    [id] = fill(client.store, 1)
    listener = client.get_listener("q")
    assert listener.listen(0) is not None
    dropping = threading.Thread(
        target=lambda: client.drop_worker(listener.worker.id, force=True), daemon=True
    )
    dropping.start()
    until(lambda: client.workers()[0].order is not None, "for it to be told")
    assert listener.heartbeat is not None
    listener.heartbeat.beat_now()
    with pytest.raises(Refused, match="drain"):
        listener.listen(0)
    assert client.get_task(id).state == "reserved"
    listener.close()
    dropping.join(PATIENCE)
    assert not dropping.is_alive()
    assert client.get_task(id).state == "pending"
