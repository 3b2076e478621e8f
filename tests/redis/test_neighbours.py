"""Two installations on one server, in different databases: their channels are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import PATIENCE, new, submit
from tests.servers.redis import RedisServer


@pytest.fixture
def pair(own_server: Callable[..., RedisServer]) -> Iterator[tuple[RedisStore, RedisStore]]:
    """Stores in two databases of a server."""
    server = own_server()
    stores = []
    for database in (0, 1):
        store = open_store(f"{server.url().partition('?')[0]}?db={database}")
        assert isinstance(store, RedisStore)
        store.setup()
        stores.append(store)
    yield stores[0], stores[1]
    for store in stores:
        store.close()


def test_a_neighbour_with_the_same_numbers_keeps_nobody_waiting(
    pair: tuple[RedisStore, RedisStore],
) -> None:
    mine, theirs = pair
    assert mine.identity() != theirs.identity()
    submit(mine, new())
    waiter = mine.waiter(None, ["q"])
    try:
        submit(theirs, new())
        submit(theirs, new())
        assert not waiter.wait(1.0), "woken by a neighbour"
        submit(mine, new())
        assert waiter.wait(PATIENCE)
        assert not waiter.wait(0.0)
    finally:
        waiter.close()


def test_an_older_publisher_wakes_and_its_number_proves_nothing(
    pair: tuple[RedisStore, RedisStore],
) -> None:
    mine, _ = pair
    mine.identity()
    submit(mine, new())
    waiter = mine.waiter(None, ["q"])
    try:
        mine._server.ask("PUBLISH", "stayer:{q}:wake", "2")
        assert waiter.wait(PATIENCE), "an older Stayer says only the number"
        submit(mine, new())
        assert waiter.wait(PATIENCE)
    finally:
        waiter.close()
