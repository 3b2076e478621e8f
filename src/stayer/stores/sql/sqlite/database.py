"""Connections to a SQLite file: a pool, transactions, and a way to wait."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from stayer.core.errors import BadInput
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.dialect import Dialect, Statements
from stayer.stores.sql.forking import mind_forks
from stayer.stores.sql.pool import ConnectionPool
from stayer.stores.sql.sqlite import rights, wake
from stayer.stores.sql.sqlite.copies import copy_file
from stayer.stores.sql.sqlite.dialect import DIALECT, statements
from stayer.stores.sql.sqlite.errors import translated
from stayer.stores.sql.sqlite.fast import FastBulk
from stayer.stores.sql.sqlite.fork_gate import GATE
from stayer.stores.sql.sqlite.lock import WriterLock
from stayer.stores.sql.sqlite.wake import Bell, FileWaiter
from stayer.stores.sql.sqlite.wal_checkpointer import Carrier
from stayer.stores.sql.table_names import DEFAULT_PREFIX
from stayer.stores.sql.transaction import Cell, Named, Row, Transaction

BUSY = 10.0
"""How long a writer waits for its turn, in seconds."""
_PRAGMAS = """
PRAGMA synchronous = {synchronous};
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -32000;
PRAGMA temp_store = MEMORY;
"""


class _Numbers:
    """Follow the newest event. There is one writer, so nobody else gives a number meanwhile."""

    def __init__(self, tx: SqliteTransaction) -> None:
        newest = tx.one("last_event")
        self._last: int = newest[0] if newest else 0

    def take(self, count: int) -> int:
        first = self._last + 1
        self._last += count
        return first


class SqliteTransaction:
    """A transaction on a connection (see `Transaction`)."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: Statements,
        now: float,
        dialect: Dialect,
        bulk: Bulk,
    ) -> None:
        self._execute = connection.execute
        self._connection = connection
        self._statements = statements
        self.now = now
        self.dialect = dialect
        self.bulk = bulk
        self.array = dialect.array
        self.may_stay_open = False  # one that is open keeps all others from writing anyhow

    def all(self, statement: Named, *parameters: Cell) -> list[Row]:
        return self._execute(self._statements[statement], parameters).fetchall()

    def one(self, statement: Named, *parameters: Cell) -> Row | None:
        # Fetched to the end: SQLite finishes a statement with RETURNING only then.
        rows = self._execute(self._statements[statement], parameters).fetchall()
        return rows[0] if rows else None

    def run(self, statement: Named, *parameters: Cell) -> int:
        return self._execute(self._statements[statement], parameters).rowcount

    def many(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> int:
        return self._connection.executemany(self._statements[statement], parameters).rowcount

    def send(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> None:
        text = self._statements[statement]
        for row in parameters:  # not executemany, which takes no SELECT
            self._execute(text, row).fetchall()

    def prefetch(self, statement: Named, *parameters: Cell) -> None:
        """Asking costs no more later."""

    def commit_with_next(self) -> None:
        """So does the commit."""

    def delete_tasks(self, seqs: list[int]) -> None:
        newest = _Numbers(self).take(1) - 1
        self.run("purge", self.array(seqs))
        # The trigger knows only SQLite's own clock.
        self.run("purge.dated", self.now, newest)

    def numbers(self) -> _Numbers:
        return _Numbers(self)

    def notify(self, queues: Iterable[str], workers: Iterable[str]) -> None:
        """The file has changed, which wakes all who wait; what they look at is in the rows. That of
        the queues the statement `count` has written.
        """
        for worker in workers:
            self.run("wake.worker", worker)

    def named(self, text: str) -> str:
        """SQL, or the name of a table, with the prefix that the tables of this store have."""
        return self._statements.named(text)

    def sql(self, text: str, *parameters: Cell) -> list[Row]:
        """The rows that SQL of SQLite's own gives: for what looks after the file itself."""
        return self._execute(self.named(text), parameters).fetchall()

    def each(self, text: str, *parameters: Cell) -> Iterator[Row]:
        """The rows that such SQL gives, one at a time."""
        yield from self._execute(self.named(text), parameters)


class LogCarrier(Protocol):
    """Looks after the log of a database file."""

    def written(self, rows: int) -> None: ...
    def close(self) -> None: ...


class Turn(Protocol):
    """The lock of the writers."""

    def held(self, timeout: float) -> AbstractContextManager[None]: ...


class UsedConnection(Protocol):
    """What a transaction runs on."""

    @property
    def sqlite(self) -> sqlite3.Connection: ...
    @property
    def lock(self) -> Turn: ...


class _Connection:
    """A connection and its place in the line of writers."""

    def __init__(self, path: str, synchronous: str, shared: rights.Shared) -> None:
        rights.make(path)
        rights.check(path, shared)
        self.sqlite = sqlite3.connect(
            path, timeout=BUSY, isolation_level=None, check_same_thread=False
        )
        self.lock = WriterLock(path + "-lock")
        try:
            self._log_ahead()
            pragmas = _PRAGMAS.format(synchronous=synchronous)
            for pragma in filter(str.strip, pragmas.split(";")):
                self.sqlite.execute(pragma)
        except BaseException:
            self.sqlite.close()
            raise

    def _log_ahead(self) -> None:
        """SQLite waits for no one while it changes this mode: only one may try at a time."""
        (mode,) = self.sqlite.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            with self.lock.held(BUSY):
                self.sqlite.execute("PRAGMA journal_mode = WAL")

    def close(self) -> None:
        self.sqlite.close()
        self.lock.close()


def _is_good(_: _Connection) -> bool:
    """A file hangs up on nobody."""
    return True


class Database:
    """A SQLite file, used by many threads, and again after a fork."""

    dialect: Dialect = DIALECT
    bulk: Bulk = FastBulk()

    def __init__(
        self,
        path: str,
        synchronous: str,
        clock: Callable[[], float] | None,
        shared: rights.Shared = "no",
        prefix: str = DEFAULT_PREFIX,
    ) -> None:
        self.path = path
        self._shared = shared
        self.clock = clock or time.time
        self._synchronous = synchronous
        self._statements = statements(self.dialect, prefix)
        self.pool = ConnectionPool(self._connect, _is_good)
        self._carrier: LogCarrier = Carrier(path, synchronous)
        mind_forks(self)

    def setup(self) -> None:
        """Make or upgrade the tables."""
        from stayer.stores.sql.sqlite import schema  # which is written in terms of this

        schema.setup(self)

    def refuse_changes(self, tx: Transaction, message: str | None) -> None:
        """Make the triggers of a sealed store, or drop them."""
        from stayer.stores.sql.sqlite import seal

        assert isinstance(tx, SqliteTransaction)
        if message is None:
            seal.drop_triggers(tx)
        else:
            seal.put_triggers(tx, message)

    def ddl(self) -> str:
        """All that makes the tables, as text."""
        from stayer.stores.sql.sqlite import schema

        return schema.ddl(self._statements.named)

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """One consistent look."""
        with self._connection() as connection:
            connection.sqlite.execute("BEGIN")
            yield self._transaction(connection.sqlite)
            connection.sqlite.execute("COMMIT")

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """One change, in turn with the other writers: all of it, or nothing."""
        with self._connection() as connection, connection.lock.held(BUSY), GATE.closed():
            connection.sqlite.execute("BEGIN IMMEDIATE")
            before = connection.sqlite.total_changes
            try:
                yield self._transaction(connection.sqlite)
                connection.sqlite.execute("COMMIT")
                self._carrier.written(connection.sqlite.total_changes - before)
            except BaseException:
                # A full disk has rolled back already.
                if connection.sqlite.in_transaction:
                    connection.sqlite.execute("ROLLBACK")
                raise

    @contextmanager
    def joined(self, connection: object) -> Iterator[SqliteTransaction]:
        """A part of the caller's own transaction, on the caller's connection."""
        if not isinstance(connection, sqlite3.Connection):
            raise BadInput(
                f"a {type(connection).__name__} is no connection to this store: give the "
                "sqlite3.Connection whose transaction the task should belong to"
            )
        with translated(self.path, BUSY):
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            yield self._transaction(connection)

    def copy_to(self, path: str) -> None:
        """Write all of the file to another one, as it is at one moment, while others go on."""
        with self._connection() as connection:
            copy_file(connection.sqlite, path)

    def number_events(self) -> None:
        """Events have their numbers from the beginning: there is one writer."""

    def tidy(self) -> None:
        """Nothing to do: counters and events are written once, as they stay."""

    def waiter(self, worker: str | None, queues: Sequence[str]) -> FileWaiter:
        """Hears of work in these queues and of orders to this worker."""
        names = DIALECT.array(queues)

        def mark() -> object:
            with self.read() as tx:
                return tx.one("wakes", names, worker)

        return FileWaiter(self._bell(), mark)

    def event_waiter(self) -> FileWaiter:
        """Hears of events."""

        def mark() -> object:
            with self.read() as tx:
                return tx.one("last_event")

        return FileWaiter(self._bell(), mark)

    def _bell(self) -> Bell:
        return wake.bell_for(self.path)

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        self._carrier.close()
        self.pool.close()

    def after_fork(self) -> None:
        """The thread is the parent's."""
        self._carrier = Carrier(self.path, self._synchronous)

    @contextmanager
    def _connection(self) -> Iterator[UsedConnection]:
        with translated(self.path, BUSY), self.pool.lent() as connection:
            yield connection

    def _connect(self) -> _Connection:
        return _Connection(self.path, self._synchronous, self._shared)

    def _transaction(self, connection: sqlite3.Connection) -> SqliteTransaction:
        return SqliteTransaction(
            connection, self._statements, self.clock(), self.dialect, self.bulk
        )
