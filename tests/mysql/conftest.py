"""A MariaDB server for all tests of this folder, and a store in a database of its own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from stayer.stores import open_store
from stayer.stores.sql.mysql import MySqlStore
from tests.servers.mariadb import QUICK, MariaDbServer, serving


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDbServer]:
    """For the tests that leave it as it is."""
    with serving(*QUICK) as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[Callable[..., MariaDbServer]]:
    """Starts servers, with options, that a test may do anything to."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(serving(*options))


@pytest.fixture
def url(server: MariaDbServer) -> str:
    return server.url()


@pytest.fixture
def database(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def store(url: str) -> Iterator[MySqlStore]:
    store = opened(url)
    yield store
    store.close()


@pytest.fixture
def hand(server: MariaDbServer, store: MySqlStore, database: str) -> Iterator[Any]:
    """Somebody else's connection, to the tables of the store."""
    with server.connect(database) as connection:
        yield connection


@pytest.fixture
def callers(server: MariaDbServer, store: MySqlStore, database: str) -> Iterator[list[Any]]:
    """Connections with transactions of their own, as PyMySQL makes them if nothing is said."""
    connections = [server.connect(database, autocommit=False) for _ in range(3)]
    yield connections
    for connection in connections:
        connection.close()


def opened(url: str) -> MySqlStore:
    store = open_store(url)
    assert isinstance(store, MySqlStore)
    store.setup()
    return store


def asked(connection: Any, text: str) -> list[tuple[Any, ...]]:
    """The rows that SQL by hand gives."""
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())
