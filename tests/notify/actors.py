"""What other processes do in the tests of delivering."""

from __future__ import annotations

from multiprocessing.connection import Connection

from stayer.service.notify.deliverer import Deliverer
from stayer.service.notify.settings import Whom
from stayer.stores import open_store


def deliver_until_killed(connection: Connection, url: str, whom: Whom) -> None:
    """Deliver, and say so when it has begun."""
    store = open_store(url)
    Deliverer(store, whom, soon=0.02, seldom=0.05).start()
    connection.send("begun")
    connection.recv()
