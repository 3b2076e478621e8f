"""A PostgreSQL server for all tests of this folder, and a store in a schema of its own for each."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from stayer.stores import open_store
from stayer.stores.sql.postgres import PostgresStore
from tests.servers.finding import postgres_binaries
from tests.servers.postgres import PostgresServer, serving


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with serving(postgres_binaries()) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.url()


@pytest.fixture
def schema(url: str) -> str:
    return url.rpartition("schema=")[2]


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = opened(url)
    yield store
    store.close()


@pytest.fixture
def hand(server: PostgresServer, store: PostgresStore, schema: str) -> Iterator[psycopg.Connection]:
    """Somebody else's connection, to the tables of the store."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {schema}")
        yield connection


def opened(url: str) -> PostgresStore:
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    store.setup()
    return store
