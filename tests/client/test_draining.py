"""A listener that somebody wants to drain."""

from __future__ import annotations

import threading

import pytest

from stayer import Client
from stayer.core.errors import Refused
from stayer.service.control import workers as worker_control
from tests.contract.builders import PATIENCE, fill
from tests.faults.fleet import until


def test_a_listener_that_is_told_to_drain_takes_no_more(client: Client) -> None:
    fill(client.store, 2)
    with client.get_listener("q") as listener:
        task = listener.listen(0)
        assert task is not None
        worker_control.drain(client.store, listener.worker.id)
        assert listener.heart is not None
        listener.heart.beat_now()
        with pytest.raises(Refused, match="drain"):
            listener.listen(0)
        listener.heart.beat_now()
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
