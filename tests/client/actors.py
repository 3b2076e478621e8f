"""What other threads and processes do in these tests, and how to wait for it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from stayer import Client, Listener, NotHeld, Refused, Task, TaskHandle
from stayer.service.control import workers as worker_control
from tests.processes import PROCESSES

PATIENCE = 60.0
"""After so many seconds something has gone wrong."""


def until(condition: Callable[[], Any]) -> Any:
    """Wait for the condition; what it gave."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)
    return found


@contextmanager
def thread(function: Callable[[], object]) -> Iterator[Callable[[], Any]]:
    """Run it beside the block; the value is to be called for what it returned or raised."""
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, function()))
        except Exception as error:
            outcome.append((False, error))

    def result() -> Any:
        running.join(PATIENCE)
        assert outcome, "it never ended"
        well, value = outcome[0]
        if not well:
            raise value
        return value

    running = threading.Thread(target=run)
    running.start()
    try:
        yield result
    finally:
        running.join(PATIENCE)


@contextmanager
def process(
    actor: Callable[..., None], *arguments: object
) -> Iterator[tuple[Connection, BaseProcess]]:
    """An actor of this module in a process of its own, and the line to it; killed at the end."""
    here, there = PROCESSES.Pipe()
    running = PROCESSES.Process(target=actor, args=(there, *arguments), daemon=True)
    running.start()
    there.close()
    try:
        yield here, running
    finally:
        running.kill()
        running.join()
        running.close()
        here.close()


def hear(line: Connection) -> Any:
    """What the other process says next."""
    assert line.poll(PATIENCE), "the other process said nothing"
    return line.recv()


def take(listener: Listener) -> TaskHandle[Any]:
    """A task that is there, or comes soon."""
    task = listener.listen(PATIENCE)
    assert task is not None
    return task


def declare_lost(client: Client, listener: Listener) -> None:
    """Declare the listener lost, and give what it held to others, as a judge does."""
    with client.get_listener("judge") as judge:
        judge.listen(0)
        number = next(w.number for w in client.workers() if w.id == listener.worker.id)
        worker_control.return_lost_tasks(
            client.store, client.store.declare_lost(judge.worker.id, {listener.worker.id: number})
        )


# Actors


def submit(line: Connection, url: str, options: dict[str, Any]) -> None:
    """Submit a task when told to."""
    with Client(url) as client:
        line.send("ready")
        line.recv()
        line.send(client.get_queue("q").enqueue("from elsewhere", **options))
        line.recv()


def claim(line: Connection, url: str, lease: float) -> None:
    """Claim a task and hold it until killed."""
    client = Client(url)
    task = take(client.get_listener("q", lease=lease))
    client.get_processor(task).start()
    line.send(task.record)
    line.recv()


def work(line: Connection, url: str, record: Task) -> None:
    """Work on a task that another process has claimed, as told."""
    with Client(url) as client:
        processor = client.get_processor(record)
        while order := line.recv():
            try:
                verb, *arguments = order
                found = getattr(processor, verb)
                line.send(found(*arguments) if callable(found) else found)
            except (NotHeld, Refused) as error:
                line.send(error)


def transact(line: Connection, path: str, url: str, many: bool) -> None:
    """Write a row and submit tasks in one transaction, then end it as told."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT)")
    with Client(url) as client:
        queue = client.get_queue("q")
        connection.execute("INSERT INTO orders VALUES ('order')")
        if many:
            line.send(queue.enqueue_many(range(3), connection=connection))
        else:
            line.send([queue.enqueue("order", connection=connection)])
        getattr(connection, line.recv())()
        line.send("over")
        line.recv()
    connection.close()
