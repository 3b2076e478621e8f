"""Connections to a PostgreSQL server: a pool, transactions, and a way to wait."""

from __future__ import annotations

import select
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from stayer.core.errors import BadInput, StoreError
from stayer.stores.sql.dialect import Dialect
from stayer.stores.sql.pool import ConnectionPool
from stayer.stores.sql.postgres.afterwards import Afterwards
from stayer.stores.sql.postgres.dialect import DIALECT, statements
from stayer.stores.sql.postgres.errors import (
    Gone,
    is_lost,
    translated,
    translated_within,
    translation,
)
from stayer.stores.sql.postgres.fast import FastBulk, WaryBulk
from stayer.stores.sql.postgres.transaction import PostgresTransaction, adapt, raw_cursor
from stayer.stores.sql.postgres.url import Address
from stayer.stores.sql.postgres.wake import Listener, ServerWaiter
from stayer.stores.sql.server_clock import ServerClock
from stayer.stores.sql.transaction import Cell, Row, Transaction


class Connection(psycopg.Connection[Row]):
    """A connection of ours."""

    is_usual = False
    """Whether a statement by itself is a transaction as `_WRITE` has it."""


_PREPARED_AFTER, _PREPARED = 3, 400
"""After how many uses a statement is prepared, and how many a connection keeps: all there are."""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Not READ WRITE: whoever made the server read-only by a setting means us, too."""


class Database:
    """A PostgreSQL server, used by many threads, and again after a fork."""

    dialect: Dialect = DIALECT

    def __init__(self, address: Address, clock: Callable[[], float] | None) -> None:
        self.address = address
        self.bulk = FastBulk()
        self._given_clock = clock
        self._clock = ServerClock()
        self._statements = statements(address.schema, address.prefix)
        self.pool = ConnectionPool(self._connect, _is_quiet)
        self.is_pooled = False
        """Whether a pooler is between this and the server."""
        self._afterwards = Afterwards(self._send, self._keep_up)
        self._listener = Listener(
            self._listening if address.listen else None,
            (address.channel, address.events_channel),
        )

    def setup(self) -> None:
        """Make or upgrade the tables."""
        from stayer.stores.sql.postgres import schema  # which is written in terms of this

        schema.setup(self)

    def ddl(self) -> str:
        """All that makes the tables, as text."""
        from stayer.stores.sql.postgres import schema

        return schema.ddl(self.address)

    def refuse_changes(self, tx: Transaction, message: str | None) -> None:
        """Make the triggers of a sealed store, or drop them."""
        from stayer.stores.sql.postgres import seal

        assert isinstance(tx, PostgresTransaction)
        if message is None:
            seal.drop_triggers(tx)
        else:
            seal.put_triggers(tx, message)

    def clock(self) -> float:
        """The server's time, as it was said a moment ago, or by asking."""
        if self._given_clock is not None:
            return self._given_clock()
        known = self._clock.read()
        if known is not None:
            return known
        with translated(self.address.url), self._connection() as connection:
            return self._asked(raw_cursor(connection))

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """One consistent look."""
        with self._transaction(_READ) as tx:
            yield tx
            tx.flush("COMMIT")

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        """One change: all of it, or nothing."""
        with self._transaction(_WRITE) as tx, self._doubted(tx):
            yield tx
            tx.commit()
        if tx.messages or tx.has_events:
            self._afterwards.note_commit(tx.messages, tx.has_events)

    @contextmanager
    def joined(self, connection: object) -> Iterator[PostgresTransaction]:
        """A part of the caller's own transaction, on the caller's connection."""
        theirs = driver_connection(connection)
        with translated_within(self.address.url):
            if theirs.autocommit and theirs.info.transaction_status == TransactionStatus.IDLE:
                theirs.execute("BEGIN")
            tx = PostgresTransaction(theirs, self._statements, self.clock(), None, WaryBulk())
            tx.make_queues = self._make_queues
            if tx.sql("SHOW transaction_isolation") != [("read committed",)]:
                tx.look = self.read
            yield tx
            # Only the caller knows when it commits: so these are a part of it.
            if tx.messages:
                tx.send("notify.within", [(self.address.channel, list(tx.messages))])
            tx.send("notify.within", [(self.address.events_channel, [""])])
            tx.flush()

    def _make_queues(self, names: list[str]) -> None:
        with translated(self.address.url):
            self._alone([("queue.make_all", (names,))])

    def number_events(self) -> None:
        """Give committed events their numbers for watchers."""
        with translated(self.address.url), suppress(psycopg.errors.ReadOnlySqlTransaction):
            self._alone([("event.number", ())])

    def tidy(self) -> None:
        """Number events, put counts together."""
        self.number_events()
        self._keep_up()

    def waiter(self, worker: str | None, queues: Sequence[str]) -> ServerWaiter:
        """Hears of work in these queues and of orders to this worker."""
        wanted = {f"queue {queue}" for queue in queues}
        if worker is not None:
            wanted.add(f"worker {worker}")
        return ServerWaiter(self._listener, self.address.channel, wanted)

    def event_waiter(self) -> ServerWaiter:
        """Hears of events."""
        return ServerWaiter(self._listener, self.address.events_channel, None)

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        self._afterwards.close()
        self._listener.close()
        self.pool.close()

    # Connections

    def _alone(self, asked: Sequence[tuple[str, Sequence[Cell]]]) -> None:
        """Run statements of which nobody wants an answer, each a transaction, in one round trip. A
        role may have another isolation level, at which they would not see what others have
        committed while they waited for a lock.
        """
        with self._connection() as connection, connection.pipeline():
            for name, parameters in asked:
                raw_cursor(connection).execute(_WRITE)
                raw_cursor(connection).execute(self._statements[name], parameters)
                raw_cursor(connection).execute("COMMIT")

    def open(self, conninfo: str) -> Connection:
        """A new connection."""
        connection = Connection.connect(
            conninfo, autocommit=True, prepare_threshold=_PREPARED_AFTER
        )
        connection.prepared_max = _PREPARED
        adapt(connection.adapters)
        cursor = raw_cursor(connection)
        row = cursor.execute("SELECT pg_backend_pid()").fetchone()
        if row is None or row[0] != connection.info.backend_pid:
            # A pooler is between, which may give every transaction another server connection.
            self.is_pooled = True
            connection.prepare_threshold = None
        else:
            cursor.execute("SET default_transaction_isolation TO 'read committed'")
            connection.is_usual = True
        if self._clock.read() is None:
            self._asked(cursor)
        return connection

    def _asked(self, cursor: psycopg.RawCursor[Row]) -> float:
        """The time that the server says."""
        row = cursor.execute(self._statements["clock"]).fetchone()
        assert row is not None
        return self._clock.set(row[0])

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[PostgresTransaction]:
        with translated(self.address.url), self._connection() as connection:
            now = self._given_clock() if self._given_clock is not None else self._clock.read()
            if now is None:
                now = self._asked(raw_cursor(connection))
            yield PostgresTransaction(
                connection, self._statements, now, begin, self.bulk,
                is_usual=begin is _WRITE and connection.is_usual,
            )  # fmt: skip

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection = self.pool.take()
        try:
            yield connection
        except BaseException as error:
            self._put_after(connection, error)
            raise
        self.pool.put(connection)

    @contextmanager
    def _doubted(self, tx: PostgresTransaction) -> Iterator[None]:
        """Say so if nobody knows whether a commit has come to the server."""
        try:
            yield
        except psycopg.Error as error:
            if not tx.is_committed:
                raise
            meant = translation(self.address.url, error)
            if is_lost(error) and isinstance(meant, StoreError):
                meant.unsure = True
            raise meant from error

    def _put_after(self, connection: Connection, error: BaseException) -> None:
        """Something went wrong: is the connection any good? Not if it was the server that said so:
        what was sent behind that was passed over, and the driver would take a statement for
        prepared that was among it.
        """
        said = isinstance(error, psycopg.Error) or isinstance(error.__cause__, psycopg.Error)
        if isinstance(error, Exception) and not said and not connection.closed:
            with suppress(psycopg.Error):
                if connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
                self.pool.put(connection)
                return
        with suppress(psycopg.Error):
            connection.close()
        if isinstance(error, psycopg.Error) and is_lost(error):
            raise Gone(f"{self.address.url} has hung up: nothing was done ({error})") from error

    def _connect(self) -> Connection:
        return self.open(self.address.conninfo)

    # Waking

    def _listening(self, channels: Collection[str]) -> Connection:
        assert self.address.listen is not None
        connection = self.open(self.address.listen)
        if connection.prepare_threshold is None:
            connection.close()
            raise psycopg.OperationalError("a pooler is between")
        cursor = raw_cursor(connection)
        for channel in channels:
            cursor.execute(f"LISTEN {channel}")
            cursor.execute(self._statements["listening"], (channel,))
        return connection

    def _send(self, messages: list[str], has_events: bool) -> bool:
        """Whether somebody heard it. A statement by itself: what it does is the same at every
        isolation level.
        """
        channels = [self.address.channel] * len(messages)
        if has_events:
            channels, messages = [*channels, self.address.events_channel], [*messages, ""]
        with translated(self.address.url), self._connection() as connection:
            cursor = raw_cursor(connection)
            return bool(cursor.execute(self._statements["notify"], (channels, messages)).rowcount)

    def _keep_up(self) -> None:
        with translated(self.address.url):
            self._alone([("upkeep", ())])


def _is_quiet(connection: Connection) -> bool:
    """Whether it can be used: an idle server says nothing, but that it hangs up."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def driver_connection(connection: Any) -> psycopg.Connection[Any]:
    """The driver's connection behind one of SQLAlchemy or Django; raises BadInput."""
    found = connection
    for _ in range(4):
        if isinstance(found, psycopg.Connection):
            return found
        if hasattr(found, "ensure_connection"):  # Django
            found.ensure_connection()
        for name in ("driver_connection", "connection"):  # SQLAlchemy: a connection, or its own
            inner = getattr(found, name, None)
            if inner is not None:
                found = inner() if callable(inner) else inner
                break
    raise BadInput(
        f"a {type(connection).__name__} is no connection to this store: give the "
        "psycopg.Connection, or SQLAlchemy's or Django's, whose transaction the task belongs to"
    )
