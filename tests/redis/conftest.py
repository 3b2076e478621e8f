"""Servers of their own for the tests that stop, kill and configure them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.servers.cluster import Cluster, clustered
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RedisServer]:
    """One for the tests that leave it as it is."""
    with serving(redis_binary()) as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three primaries, for tests that leave its nodes as they are."""
    with clustered(redis_binary(), replicas=0) as cluster:
        yield cluster


@pytest.fixture
def own_server() -> Iterator[Callable[..., RedisServer]]:
    """Starts servers, with options, that a test may do anything to."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(serving(redis_binary(), *options))


@pytest.fixture
def url(shared_server: RedisServer) -> str:
    return shared_server.url()


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    store = open_store(url)
    assert isinstance(store, RedisStore)
    store.setup()
    yield store
    store.close()


@pytest.fixture
def other(store: Store, url: str) -> Iterator[Store]:
    """The same store, opened once more."""
    store = open_store(url)
    yield store
    store.close()
