"""What other processes do in the tests of notices (see `actors`)."""

from __future__ import annotations

from multiprocessing.connection import Connection

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.stores import open_store
from tests.contract.actors import Ready, opened
from tests.contract.builders import beat, new, register, take


def take_notices(ready: Ready, url: str) -> list[str]:
    """Take what is due, a few at a time, until there is nothing."""
    taken: list[str] = []
    with opened(url) as store:
        store.now()
        ready()
        while found := store.take_notices(["hook"], 4, 600.0, 86400.0):
            taken += [notice.id for notice in found]
    return taken


def end_dangerously(connection: Connection, url: str, name: str) -> None:
    """Submit tasks that tell of their end, and end them; say how many, until killed."""
    store = open_store(url)
    register(store, name)
    for number in range(1_000_000):
        store.submit([new(queue=name, notify=("ended:hook",)) for _ in range(3)])
        ended = store.commit([decide(task, Done()) for task in take(store, name, name, limit=3)])
        connection.send(len(ended))
        beat(store, name, number + 2)
