"""What is left in the keys when everything has been forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stayer.core.happenings import Done, Interrupt, Start
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Report, Usage
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import apply, beat, fill, get, ids, new, register, submit, take, taken
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


def test_nothing_is_left_of_tasks_that_are_gone(store: RedisStore) -> None:
    """Memory does not leak: of a thousand tasks, purged ids are left, the events, and settings."""
    register(store)
    prefix = store._server.address.prefix
    for _ in range(10):
        fill(store, 50, parameters="x" * 2000)
        fill(store, 50, name="f", parameters=b"raw")
        tasks = take(store, limit=100)
        apply(store, tasks[0], Start())
        store.commit([decide(task, Done("y" * 2000)) for task in tasks[1:]])
        control.settle(store, get(store, tasks[0].id), Done(b"bytes"))
        store.purge(None, FINISHED, float("inf"), 1000)
    task = taken(store)
    for number in range(700):
        beat(store, "w", number + 2, Report(id=task.id, attempt=task.attempt, usage=Usage(1.0)))
        _, [task] = store.turn("w", [decide(task, Interrupt())], ["q"], 1, EVERYTHING)
    apply(store, task, Done())
    store.drop_queue("q", 1000)
    found = store._server.ask("KEYS", f"{prefix}:*")  # here only: this server is the tests' own
    left = {key.decode().removeprefix(f"{prefix}:") for key in found}
    assert {key for key in left if not key.startswith("purged:")} == {
        "meta", "last", "events", "workers", "worker:w", "late", "early",
    }  # fmt: skip
