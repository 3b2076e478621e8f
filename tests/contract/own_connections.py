"""Connections by hand to the tables of a store: for tests that say who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import psycopg
import pymysql

from stayer.store import Store
from stayer.stores.sql.mysql import MySqlStore
from stayer.stores.sql.postgres import PostgresStore
from stayer.stores.sql.store import SqlStore
from stayer.stores.sql.table_names import DEFAULT_PREFIX, with_prefix
from tests.contract.builders import PATIENCE


class OwnConnection(Protocol):
    """Somebody's connection, with a transaction that is begun by the first statement."""

    raw: Any
    """As `submit_on` takes it."""
    new_events: str
    """The table into which events come."""

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """The rows that SQL gives."""

    def wait_for_lock(self, number: int = 1) -> None:
        """Until so many others wait for a lock."""

    def end_who_waits(self) -> None:
        """End the connections of those who wait for a lock."""

    def commit(self) -> None:
        """End the transaction."""

    def rollback(self) -> None:
        """Undo it."""

    def close(self) -> None:
        """Close the connection."""


class _Connection:
    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.commit, self.rollback, self.close = raw.commit, raw.rollback, raw.close

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        with self.raw.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    def _wait(self, text: str, number: int) -> None:
        for _ in range(int(PATIENCE * 5)):
            if self.ask(text)[0][0] >= number:
                return
        raise AssertionError("nobody waits")


class PostgresConnection(_Connection):
    new_events = "stayer_new_events"

    def __init__(self, store: PostgresStore) -> None:
        address = store._database.address
        super().__init__(psycopg.connect(address.conninfo))
        self.ask(f"SET search_path TO {address.schema}")
        self.commit()

    def wait_for_lock(self, number: int = 1) -> None:
        self._wait("SELECT count(*), pg_sleep(0.01) FROM pg_locks WHERE NOT granted", number)

    def end_who_waits(self) -> None:
        self.ask("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE NOT granted")


class MySqlConnection(_Connection):
    new_events = "stayer_events"

    def __init__(self, store: MySqlStore) -> None:
        options = {**store._database._options, "charset": "utf8mb4", "autocommit": False}
        super().__init__(pymysql.connect(**options))
        # The tables were emptied by hand before. An id that was there, and is not cleared away yet,
        # is locked with all that lies around it by a caller who brings it again. To Stayer itself
        # that does not happen, for it accepts no id that was deleted lately.
        self.ask("SET GLOBAL innodb_max_purge_lag_wait = 0")

    def wait_for_lock(self, number: int = 1) -> None:
        # The server looks again only if nobody has asked for a tenth of a second.
        self._wait(
            "SELECT count(*), sleep(0.15) FROM information_schema.innodb_trx "
            "WHERE trx_state = 'LOCK WAIT'",
            number,
        )

    def end_who_waits(self) -> None:
        for (connection,) in self.ask(
            "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx "
            "WHERE trx_state = 'LOCK WAIT'"
        ):
            self.ask(f"KILL {connection}")


SQL_SERVERS = ("postgres", "mariadb")
"""Those of `STORES` where several write at a time, whom such connections show waiting …"""
CONNECTIONS: dict[type[SqlStore], Callable[[Any], OwnConnection]] = {
    PostgresStore: PostgresConnection,
    MySqlStore: MySqlConnection,
}
"""… and what connects to them."""


@contextmanager
def own_connections(store: Store, number: int) -> Iterator[list[OwnConnection]]:
    """So many connections to a store's tables."""
    made: list[OwnConnection] = []
    try:
        for _ in range(number):
            assert isinstance(store, SqlStore)
            made.append(CONNECTIONS[type(store)](store))
        yield made
    finally:
        for connection in made:
            connection.close()


def database(store: Store) -> Any:
    """What a store on SQL stands on."""
    assert isinstance(store, SqlStore)
    return store._database


def run_by_hand(store: SqlStore, text: str) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own; the rows that it gives."""
    if not isinstance(store, PostgresStore | MySqlStore):  # a file, or in memory
        with database(store).write() as tx:
            return list(tx.sql(text))
    prefix = parse_qs(urlsplit(store.url).query).get("prefix", [DEFAULT_PREFIX])[0]
    with own_connections(store, 1) as [connection]:
        rows = connection.ask(with_prefix(text, prefix))
        connection.commit()
    return rows
