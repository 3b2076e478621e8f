"""What is left in the keys when everything has been forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stayer.core.lifecycle import Done, decide
from stayer.core.model import FINISHED
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import get, ids, new, register, submit, take
from tests.contract.test_flows import pass_on
from tests.servers.cluster import Cluster
from tests.servers.redis import RedisServer

QUEUES = ("q", "r")


@pytest.fixture(params=["one server", "cluster"])
def anywhere(
    request: pytest.FixtureRequest, shared_server: RedisServer, cluster: Cluster
) -> Iterator[Store]:
    store = open_store((shared_server if request.param == "one server" else cluster).url())
    store.setup()
    yield store
    store.close()


def ties(store: Store) -> list[str]:
    """The keys that tie tasks together."""
    servers: list[Server]
    if isinstance(store, ClusterStore):
        servers, prefix = store._nodes.primaries(), store._nodes.options.prefix
    else:
        assert isinstance(store, RedisStore)
        servers, prefix = [store._server], store._server.address.prefix
    found = [name.decode() for each in servers for name in each.ask("KEYS", f"{prefix}:*")]
    words = ("waits", "waiters", "dependents", "upstreams", "listeners", "outbox", "afar", "asked")
    return [name for name in found if any(f":{word}" in name for word in words)]


def run_all(store: Store) -> None:
    pass_on(store)
    while taken := take(store, queues=QUEUES, limit=10):
        assert None not in store.commit([decide(task, Done()) for task in taken])
        pass_on(store)


def purge(store: Store, *names: str) -> None:
    assert sorted(store.purge(names, FINISHED, store.now() + 10, 10)) == sorted(names)
    pass_on(store)


@pytest.mark.parametrize("queue", QUEUES)
def test_of_one_that_ran_after_what_was_purged_nothing_is_left(anywhere: Store, queue: str) -> None:
    register(anywhere, queues=QUEUES)
    submit(anywhere, new("a"))
    run_all(anywhere)
    purge(anywhere, "a")
    submit(anywhere, new("b", queue, after=("a",)))
    run_all(anywhere)
    assert get(anywhere, "b").state == "complete"
    purge(anywhere, "b")
    assert ties(anywhere) == []


@pytest.mark.parametrize("queue", QUEUES)
def test_what_stays_does_not_remember_those_that_ran_after_it(anywhere: Store, queue: str) -> None:
    register(anywhere, queues=QUEUES)
    submit(anywhere, new("a"))
    for number in range(3):
        [after] = submit(anywhere, new(f"b{number}", queue, after=("a",)))
        run_all(anywhere)
        purge(anywhere, after.id)
    assert ids([get(anywhere, "a")]) == ["a"]
    assert not [name for name in ties(anywhere) if ":dependents:" in name]
    purge(anywhere, "a")
    assert ties(anywhere) == []
