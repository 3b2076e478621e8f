"""The stores that are measured: how one is made, filled, and what its floor is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from bench.floor import Floor
from bench.processes import each_on_a_core
from stayer.core.worker_model import Worker
from stayer.store import Store
from stayer.stores import open_store


class FloorLike(Protocol):
    """What does the same work with no contract."""

    def submit(self, count: int) -> int:
        """So many tasks at once."""

    def drain(self, tasks: int, batch: int) -> int:
        """Reserve and complete so many, a batch at a time."""


class Kind(Struct, frozen=True):
    """A kind of store. A place is where one is: a path, a socket."""

    name: str
    fresh: Callable[[], AbstractContextManager[tuple[Store, str]]]
    """An empty store with one registered worker, and its place."""
    floor: Callable[[str], FloorLike]
    floor_is: str
    fill: Callable[[Store, str, int], None]
    """So many pending and so many finished tasks."""
    drain_aim: float
    growth_aim: float


def _registered(url: str) -> Store:
    store = open_store(url)
    store.setup()
    store.beat(Worker(id="w", node="node", pid=1), 1, "nonce", ())
    return store


@contextmanager
def _fresh_sqlite() -> Iterator[tuple[Store, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stayer.db")
        store = _registered(f"sqlite:///{path}")
        yield store, str(path)
        store.close()


@contextmanager
def _fresh_redis() -> Iterator[tuple[Store, str]]:
    from tests.servers.finding import redis_binary
    from tests.servers.redis import serving

    with serving(redis_binary()) as server, each_on_a_core(server.pid):
        store = _registered(server.url())
        yield store, server.socket
        store.close()


@contextmanager
def _fresh_postgres() -> Iterator[tuple[Store, str]]:
    from tests.servers.finding import postgres_binaries
    from tests.servers.postgres import serving

    with serving(postgres_binaries(), "shared_buffers=256MB", careless=False) as server:
        store = _registered(server.url("bench"))
        yield store, f"{server.conninfo} bench"
        store.close()


def _postgres_floor(place: str) -> FloorLike:
    from bench.postgres_floor import PostgresFloor

    return PostgresFloor(place)


def _redis_floor(socket: str) -> FloorLike:
    from bench.redis_floor import RedisFloor

    return RedisFloor(socket)


def _fill_sqlite(store: Store, path: str, size: int) -> None:
    """Written by SQL alone."""
    import sqlite3

    if not size:
        return
    with sqlite3.connect(path) as db:
        for state, finished in (("pending", "NULL"), ("complete", "1.7e9 + n")):
            db.execute(
                "INSERT INTO stayer_tasks (id, queue, parameters, state, created, updated, "
                "finished_at, owner) WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL "
                f"SELECT n + 1 FROM numbers WHERE n < {size}) SELECT lower(hex(randomblob(8))), "
                f"'q', '{{\"x\":1}}', '{state}', 1.7e9 + n, 1.7e9 + n, {finished}, 'me' "
                "FROM numbers"
            )
            db.execute(
                "INSERT INTO stayer_events (at, ids, queue, event) SELECT created, json_array(id), "
                "queue, state FROM stayer_tasks WHERE state = ?", (state,),
            )  # fmt: skip
        db.execute(
            "INSERT INTO stayer_queues (name, pending, complete) VALUES ('q', ?, ?)", (size, size)
        )
    db.close()


def _fill_postgres(store: Store, place: str, size: int) -> None:
    """Written by SQL alone."""
    import psycopg

    conninfo, _, schema = place.partition(" ")
    if not size:
        return
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {schema}")
        for state, finished in (("pending", "NULL"), ("complete", "1.7e9 + n")):
            connection.execute(
                "INSERT INTO stayer_tasks (id, queue, parameters, state, created, updated, "
                f"finished_at, owner) SELECT '{state}' || n, 'q', '{{\"x\":1}}', '{state}', "
                f"1.7e9 + n, 1.7e9 + n, {finished}, 'me' FROM generate_series(1, {size}) AS n"
            )
        connection.execute("INSERT INTO stayer_queues (name) VALUES ('q')")
        connection.execute(
            "INSERT INTO stayer_counts (queue, pending, complete) VALUES ('q', %s, %s)",
            (size, size),
        )
        connection.execute("VACUUM ANALYZE stayer_tasks")


def _fill_redis(store: Store, socket: str, size: int) -> None:
    """By submits and turns, as everybody does it."""
    from bench.store_speed import complete_all, submit_some

    for _ in range(size // 1000):
        submit_some(store, 1000)
    complete_all(store, size, 500)
    for _ in range(size // 1000):
        submit_some(store, 1000)


KINDS = {
    "sqlite": Kind(
        "SQLite", _fresh_sqlite, lambda path: Floor(Path(path)),
        "bare sqlite3, same rows, schema, pragmas, lock", _fill_sqlite, 0.4, 1.5,
    ),
    "postgres": Kind(
        "PostgreSQL", _fresh_postgres, _postgres_floor,
        "a bare SKIP LOCKED loop on the same tables", _fill_postgres, 0.5, 1.3,
    ),
    "redis": Kind(
        "Redis", _fresh_redis, _redis_floor,
        "a bare batched loop in Lua, a hash a task, no history", _fill_redis, 0.5, 1.3,
    ),
}  # fmt: skip
