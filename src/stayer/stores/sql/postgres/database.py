"""Connections to a PostgreSQL server: a pool, transactions, and a way to wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from stayer.core.errors import BadInput, StoreError
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.dialect import Dialect, Statements
from stayer.stores.sql.postgres.afterwards import Afterwards
from stayer.stores.sql.postgres.clock import ServerClock
from stayer.stores.sql.postgres.dialect import DIALECT, statements
from stayer.stores.sql.postgres.errors import Gone, is_lost, translated, translation
from stayer.stores.sql.postgres.url import Address
from stayer.stores.sql.postgres.wake import Listener, ServerWaiter
from stayer.stores.sql.transaction import Cell, Named, Row

Connection: TypeAlias = psycopg.Connection[Row]
_IDLE = 8
"""How many unused connections are kept."""
_PREPARED_AFTER, _PREPARED = 3, 400
"""After how many uses a statement is prepared, and how many a connection keeps: all there are."""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; "
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; "


class _FlagLoader(Loader):
    """Booleans as 0 and 1, as they are on every database."""

    def load(self, data: bytes | bytearray | memoryview) -> int:
        return int(bytes(data) == b"t")


def adapt(adapters: AdaptersMap) -> None:
    """What goes to the server, and comes from it, in another form than the driver has: every whole
    number has one type, whatever its size, so a statement is prepared once.
    """
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_loader("bool", _FlagLoader)


class Numbers:
    """A block of numbers that a transaction has to itself. One that needs more goes on beyond it:
    numbers only have to grow in the history of each task.
    """

    def __init__(self, first: int) -> None:
        self._next = first

    def take(self, count: int) -> int:
        first = self._next
        self._next += count
        return first


class PostgresTransaction:
    """A transaction on a connection (see `Transaction`)."""

    def __init__(
        self,
        cursor: psycopg.RawCursor[Row],
        statements: Statements,
        now: float,
        first_number: int,
        bulk: Bulk,
    ) -> None:
        self._cursor = cursor
        self._statements = statements
        self._first_number: int | None = first_number
        self.now = now
        self.dialect: Dialect = DIALECT
        self.bulk = bulk
        self.array = DIALECT.array
        self.messages: dict[str, None] = {}
        """Whom to wake once it is committed."""
        self.has_events = False

    def all(self, statement: Named, *parameters: Cell) -> list[Row]:
        return self._cursor.execute(self._statements[statement], parameters).fetchall()

    def one(self, statement: Named, *parameters: Cell) -> Row | None:
        return self._cursor.execute(self._statements[statement], parameters).fetchone()

    def run(self, statement: Named, *parameters: Cell) -> int:
        return self._cursor.execute(self._statements[statement], parameters).rowcount

    def many(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> int:
        rows = list(parameters)
        self.has_events |= statement == "event"
        if len(rows) == 1:
            return self.run(statement, *rows[0])
        if rows:
            self._cursor.executemany(self._statements[statement], rows)
        return self._cursor.rowcount if rows else 0

    def delete_tasks(self, seqs: list[int]) -> None:
        self.all("purge.dated", repr(self.now))
        self.run("purge", self.array(seqs))
        self.has_events = True

    def numbers(self) -> Numbers:
        if self._first_number is None:  # a second ledger of the same transaction
            [(number,)] = self.all("number")
            return Numbers(number)
        first, self._first_number = self._first_number, None
        return Numbers(first)

    def notify(self, queues: Iterable[str], workers: Iterable[str]) -> None:
        self.messages.update((f"queue {queue}", None) for queue in queues)
        self.messages.update((f"worker {worker}", None) for worker in workers)

    def sql(self, text: str, *parameters: Cell) -> list[Row]:
        """The rows that SQL of PostgreSQL's own gives, with the names of this store's tables."""
        return self._cursor.execute(self._statements.named(text), parameters or None).fetchall()

    def script(self, text: str) -> None:
        """Run several statements, as they are."""
        self._cursor.execute(text, prepare=False)


_inherited: list[Connection] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class Database:
    """A PostgreSQL server, used by many threads, and again after a fork."""

    dialect: Dialect = DIALECT
    bulk: Bulk = Bulk()

    def __init__(self, address: Address, clock: Callable[[], float] | None) -> None:
        self.address = address
        self._given_clock = clock
        self._clock = ServerClock()
        self._statements = statements(address.schema, address.prefix)
        self._idle: list[Connection] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self.is_pooled = False
        """Whether a pooler is between this and the server."""
        now = self._statements["clock"]
        self._begin_read = _READ + now
        self._begin_write = f"{_WRITE}{now}, {self._statements['number.next']}"
        self._afterwards = Afterwards(self._send, self._keep_up)
        self._listener = Listener(
            self._listening if address.listen else None,
            (address.channel, address.events_channel),
        )

    def setup(self) -> None:
        """Make or upgrade the tables."""
        from stayer.stores.sql.postgres import schema  # which is written in terms of this

        schema.setup(self)

    def clock(self) -> float:
        """The server's time."""
        if self._given_clock is not None:
            return self._given_clock()
        known = self._clock.read()
        if known is not None:
            return known
        with self.plain() as cursor:
            row = cursor.execute(self._statements["clock"]).fetchone()
            assert row is not None
            return self._clock.set(row[0])

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """One consistent look."""
        with translated(self.address.url), self._connection(self._begin_read) as opened:
            connection, [now] = opened
            yield self._transaction(connection, now, 0)
            connection.execute("COMMIT")

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        """One change: all of it, or nothing."""
        with translated(self.address.url), self._connection(self._begin_write) as opened:
            connection, [now, number] = opened
            tx = self._transaction(connection, now, number)
            yield tx
            self._commit(connection)
        if tx.messages or tx.has_events:
            self._afterwards.committed(tx.messages, tx.has_events)

    @contextmanager
    def bare(self) -> Iterator[PostgresTransaction]:
        """A change where there may be no tables yet."""
        begin = _WRITE + self._statements["clock"]
        with translated(self.address.url), self._connection(begin) as (connection, [now]):
            yield self._transaction(connection, now, 0)
            self._commit(connection)

    @contextmanager
    def joined(self, connection: object) -> Iterator[PostgresTransaction]:
        """A part of the caller's own transaction, on the caller's connection."""
        theirs = driver_connection(connection)
        with translated(self.address.url):
            if theirs.autocommit and theirs.pgconn.transaction_status == TransactionStatus.IDLE:
                theirs.execute("BEGIN")
            cursor = psycopg.RawCursor(theirs)
            adapt(cursor.adapters)
            clock, number = self._statements["clock"], self._statements["number.next"]
            row = cursor.execute(f"{clock}, {number}").fetchone()
            assert row is not None
            now = row[0] if self._given_clock is None else self._given_clock()
            tx = PostgresTransaction(cursor, self._statements, now, row[1], self.bulk)
            yield tx
            # Only the caller knows when it commits: so these are a part of it.
            self._notify("notify.within", cursor, tx.messages, tx.has_events)

    def number_events(self) -> None:
        """Give committed events their numbers for watchers."""
        with self.plain() as cursor, suppress(psycopg.errors.ReadOnlySqlTransaction):
            cursor.execute(self._statements["event.number"])

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
        if self._pid != os.getpid():
            self._forget()
        self._afterwards.close()
        self._listener.close()
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # Connections

    @contextmanager
    def plain(self) -> Iterator[psycopg.RawCursor[Row]]:
        """A cursor outside of a transaction: each statement is one."""
        with translated(self.address.url), self._connection(None) as (connection, _):
            yield self._cursor(connection)

    def open(self, conninfo: str) -> Connection:
        """A new connection."""
        connection: Connection = psycopg.connect(
            conninfo, autocommit=True, cursor_factory=psycopg.RawCursor,
            prepare_threshold=_PREPARED_AFTER,
        )  # fmt: skip
        connection.prepared_max = _PREPARED
        adapt(connection.adapters)
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        if row is None or row[0] != connection.info.backend_pid:
            # A pooler is between, which may give every transaction another server connection.
            self.is_pooled = True
            connection.prepare_threshold = None
        return connection

    @contextmanager
    def _connection(self, begin: str | None) -> Iterator[tuple[Connection, Row]]:
        connection, said = self._begun(begin)
        try:
            yield connection, said
        except BaseException as error:
            self._put_after(connection, error)
            raise
        self._put(connection)

    def _begun(self, begin: str | None) -> tuple[Connection, Row]:
        """A connection in which a transaction has begun, and what the server said to that. One that
        was lost while nobody used it is replaced.
        """
        while True:
            connection, is_new = self._take()
            if begin is None:
                if not is_new and connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.close()
                    continue
                return connection, ()
            try:
                cursor = connection.execute(begin, prepare=False)
                cursor.nextset()
                row = cursor.fetchone()
                assert row is not None
                return connection, row
            except psycopg.Error as error:
                connection.close()
                if is_new or not is_lost(error):
                    raise
                self._drop_idle()

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            meant = translation(self.address.url, error)
            if is_lost(error) and isinstance(meant, StoreError):
                meant.unsure = True
            raise meant from error

    def _put_after(self, connection: Connection, error: BaseException) -> None:
        """Something went wrong: is the connection any good?"""
        if isinstance(error, Exception) and not connection.closed and not is_lost(error):
            with suppress(psycopg.Error):
                if connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
                self._put(connection)
                return
        with suppress(psycopg.Error):
            connection.close()
        if isinstance(error, psycopg.Error) and is_lost(error):
            raise Gone(f"{self.address.url} has hung up: nothing was done ({error})") from error

    def _take(self) -> tuple[Connection, bool]:
        if self._pid != os.getpid():
            self._forget()
        with self._guard:
            if self._idle:
                return self._idle.pop(), False
        return self.open(self.address.conninfo), True

    def _put(self, connection: Connection) -> None:
        with self._guard:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        """They were lost with the one that was tried."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _forget(self) -> None:
        """A connection must not be used, nor closed, by a forked child: leave it to the parent."""
        _inherited.extend(self._idle)
        self._idle = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    def _cursor(self, connection: Connection) -> psycopg.RawCursor[Row]:
        return psycopg.RawCursor(connection)

    def _transaction(self, connection: Connection, now: float, number: int) -> PostgresTransaction:
        self._clock.set(now)
        if self._given_clock is not None:
            now = self._given_clock()
        return PostgresTransaction(
            self._cursor(connection), self._statements, now, number, self.bulk
        )

    # Waking

    def _listening(self, channels: Collection[str]) -> Connection:
        assert self.address.listen is not None
        connection = self.open(self.address.listen)
        if connection.prepare_threshold is None:
            connection.close()
            raise psycopg.OperationalError("a pooler is between")
        for channel in channels:
            connection.execute(f"LISTEN {channel}")
            connection.execute(self._statements["listening"], (channel,))
        return connection

    def _send(self, messages: list[str], has_events: bool) -> None:
        with self.plain() as cursor:
            self._notify("notify", cursor, messages, has_events)

    def _notify(
        self,
        statement: str,
        cursor: psycopg.RawCursor[Row],
        messages: Iterable[str],
        has_events: bool,
    ) -> None:
        sent = self._statements[statement]
        if found := list(messages):
            cursor.execute(sent, (self.address.channel, found))
        if has_events:
            cursor.execute(sent, (self.address.events_channel, [""]))

    def _keep_up(self) -> None:
        with self.plain() as cursor:
            cursor.execute(self._statements["upkeep"])


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
        "psycopg.Connection, or SQLAlchemy's or Django's connection, whose transaction the task should belong to"
    )
