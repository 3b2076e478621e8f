"""The stores that the contract is tested against, and what its tests are given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias
from uuid import uuid4

import pytest

from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql.sqlite.memory import discard
from tests.contract.builders import Clock
from tests.servers import mariadb as mariadb_servers
from tests.servers.cluster import clustered
from tests.servers.finding import (
    oldest_postgres_binaries,
    oldest_redis_binary,
    postgres_binaries,
    redis_binary,
    valkey_binary,
)
from tests.servers.postgres import serving as postgres_serving
from tests.servers.redis import serving
from tests.sqlite.several_writers import several_writers

FreshUrl: TypeAlias = Callable[[], str]
"""Makes a store that nobody has used yet; the answer is its URL."""


@contextmanager
def sqlite(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    yield lambda: f"sqlite:///{folders.mktemp('sqlite')}/stayer.db"


@contextmanager
def sqlite_prefixed(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with sqlite(folders) as fresh:
        yield lambda: f"{fresh()}?prefix=jobs_"


@contextmanager
def memory(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    made: deque[str] = deque()

    def fresh() -> str:
        """Of what was made long ago nobody has a use."""
        made.append(f"memory:{uuid4().hex}")
        if len(made) > 10:
            discard(made.popleft())
        return made[-1]

    yield fresh
    for url in made:
        discard(url)


@contextmanager
def redis(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with serving(redis_binary()) as server:
        yield server.url


@contextmanager
def oldest_redis(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with serving(oldest_redis_binary()) as server:
        yield server.url


@contextmanager
def valkey(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with serving(valkey_binary()) as server:
        yield server.url


@contextmanager
def redis_cluster(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with clustered(redis_binary(), replicas=0) as cluster:
        yield cluster.url


@contextmanager
def postgres(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with postgres_serving(postgres_binaries()) as server:
        yield server.emptied_url


@contextmanager
def oldest_postgres(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with postgres_serving(oldest_postgres_binaries()) as server:
        yield lambda: server.url(prefix="jobs_")


@contextmanager
def mariadb(folders: pytest.TempPathFactory) -> Iterator[FreshUrl]:
    with mariadb_servers.serving(*mariadb_servers.QUICK) as server:
        yield server.url


STORES: dict[str, Callable[[pytest.TempPathFactory], AbstractContextManager[FreshUrl]]] = {
    "sqlite": sqlite,
    "sqlite-plain": sqlite_prefixed,
    "memory": memory,
    "postgres": postgres,
    "postgres-oldest": oldest_postgres,
    "mariadb": mariadb,
    "redis": redis,
    "valkey": valkey,
    "redis-6.2": oldest_redis,
    "cluster": redis_cluster,
}
"""Name → starts what the store needs, gives fresh URLs, and stops it in the end."""

ALIKE = ("sqlite-plain", "postgres-oldest", "valkey", "redis-6.2")
"""Stores with the same scripts as another one, or the same tables."""

ALSO_ALIKE = (
    "test_failures.py", "test_flow_model.py", "test_forget.py", "test_life.py",
    "test_lost_workers.py",
    "test_model.py", "test_move.py", "test_notices.py", "test_purge.py", "test_queue_stats.py",
    "test_queues.py", "test_reads.py", "test_schedules.py", "test_turn.py",
)  # fmt: skip
"""Modules that between them call the scripts of all subjects: these show whether a server
understands them. What else the contract says of stores with the same scripts is left to the long
tests.
"""

ALSO_IN_MEMORY = ("test_life.py", "test_reads.py", "test_turn.py", "test_waiter.py")
"""What shows that the database in memory is used right: what is done there is that of SQLite."""

MANY_PROCESSES = ("test_races.py", "test_kill.py", "test_flow_crashes.py", "test_long_histories.py")
"""On a cluster each of these takes as long as all of a small module."""

_THOUSANDS = (
    "test_thousands_may_come_in_one_call", "test_thousands_at_once",
    "test_thousands_may_change_in_one_call", "test_many_events_are_counted_to_the_last",
    "test_very_many_that_are_too_old_hide_nothing",
)  # fmt: skip
_ALL_HISTORIES = "test_long_histories.py"
_KILLED_MOVES = "test_a_move_that_is_killed_at_any_change_goes_on_when_it_is_run_again"
_MOVED_HISTORY = "test_a_long_history_is_moved_with_the_gap_in_it"

COSTLY: dict[object, tuple[str, ...]] = {
    "postgres": (_ALL_HISTORIES, _MOVED_HISTORY),
    "mariadb": (
        "test_each_tick_comes_once_though_workers_die_all_the_time",
        _ALL_HISTORIES, _KILLED_MOVES, _MOVED_HISTORY, *_THOUSANDS,
    ),
    "cluster": (_KILLED_MOVES, _MOVED_HISTORY),
}  # fmt: skip
"""Tests and modules, by store, that take as much of the processor there as hundreds of others. The
short run has them on stores that are quicker at it and share the SQL, or the scripts.
"""
EXCEPTIONS = ("test_of_the_beginning_and_the_end_are_kept",)
"""One of each such module stays."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the long tests what costs most."""
    items[:] = [item for item in items if not _needs_what_memory_lacks(item)]
    for item in items:
        store = getattr(item, "callspec", None) and item.callspec.params.get("fresh_url")  # type: ignore[attr-defined]
        if store == "cluster" and item.path.name in MANY_PROCESSES:
            item.add_marker(pytest.mark.long)
        if store == "memory" and item.path.name not in ALSO_IN_MEMORY:
            item.add_marker(pytest.mark.long)
        if store == "postgres-oldest":
            item.add_marker(pytest.mark.long)
        names = {item.path.name, getattr(item, "originalname", "")}
        if not names.isdisjoint(COSTLY.get(store, ())) and names.isdisjoint(EXCEPTIONS):
            item.add_marker(pytest.mark.long)
        if store in ALIKE and item.path.name not in ALSO_ALIKE:
            item.add_marker(pytest.mark.long)


def _needs_what_memory_lacks(item: pytest.Item) -> bool:
    """Whether other processes are to use a store that they can't see."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("fresh_url") != "memory":
        return False
    fixtures = item.fixturenames  # type: ignore[attr-defined]
    opens_in_others = "url" in item.function.__code__.co_varnames  # type: ignore[attr-defined]
    in_others = ("timely" in fixtures and opens_in_others) or item.path.name == "test_forks.py"
    return in_others or "_set_up_an_empty_" in item.name


@pytest.fixture(scope="session", params=list(STORES))
def fresh_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FreshUrl]:
    with STORES[request.param](tmp_path_factory) as fresh:
        yield fresh


@pytest.fixture(autouse=True)
def on_the_plain_road(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let SQLite go the road of databases with several writers, for as long as such a test runs."""
    callspec = getattr(request.node, "callspec", None)
    is_plain = callspec is not None and callspec.params.get("fresh_url") == "sqlite-plain"
    with several_writers() if is_plain else nullcontext():
        yield


@pytest.fixture
def url(fresh_url: FreshUrl) -> str:
    return fresh_url()


@pytest.fixture
def clock() -> Clock:
    """The time of `store`, which stands still until a test moves it."""
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    """An empty store in fake time."""
    yield from _opened(url, clock)


@pytest.fixture
def other(store: Store, url: str, clock: Clock) -> Iterator[Store]:
    """The same store, opened once more."""
    yield from _opened(url, clock)


@pytest.fixture
def timely(url: str) -> Iterator[Store]:
    """An empty store in its own time, for tests with several processes."""
    yield from _opened(url, None)


def _opened(url: str, clock: Clock | None) -> Iterator[Store]:
    store = open_store(url, clock=clock)
    store.setup()
    yield store
    store.close()
