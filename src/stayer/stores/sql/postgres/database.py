"""Connections to a PostgreSQL server: a pool, transactions, and a way to wait."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper

from stayer.core.errors import BadInput, StoreError
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.dialect import Dialect, Statements
from stayer.stores.sql.postgres.afterwards import Afterwards
from stayer.stores.sql.postgres.dialect import DIALECT, statements
from stayer.stores.sql.postgres.errors import Gone, is_lost, translated, translation
from stayer.stores.sql.postgres.fast import FastBulk, WaryBulk
from stayer.stores.sql.postgres.url import Address
from stayer.stores.sql.postgres.wake import Listener, ServerWaiter
from stayer.stores.sql.server_clock import ServerClock
from stayer.stores.sql.transaction import Cell, Named, Row, Transaction

Connection: TypeAlias = psycopg.Connection[Row]
_IDLE = 8
"""How many unused connections are kept."""
_PREPARED_AFTER, _PREPARED = 3, 400
"""After how many uses a statement is prepared, and how many a connection keeps: all there are."""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE"


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


_numbered = threading.Lock()
_last_number = 0


class Numbers:
    """Numbers for the lines of histories: millionths of a second, each given once by this process.
    They need only grow in the history of each task.
    """

    def __init__(self, now: float) -> None:
        self._now = int(now * 1_000_000)

    def take(self, count: int) -> int:
        global _last_number  # noqa: PLW0603
        with _numbered:
            first = max(self._now, _last_number + 1)
            _last_number = first + count - 1
        return first


def raw_cursor(connection: psycopg.Connection[Any]) -> psycopg.RawCursor[Row]:
    """A cursor for our statements, on whosever connection."""
    return psycopg.RawCursor(connection, row_factory=tuple_row)


_Unsent: TypeAlias = tuple[str, Sequence[Cell] | None, psycopg.RawCursor[Row] | None]
"""A statement, its parameters, and who is to have what it gives."""


class PostgresTransaction:
    """A transaction on a connection (see `Transaction`). It begins with the first statement; what
    nobody waits for goes to the server with the next one, and the last with the commit: so most
    operations take two or three round trips.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        statements: Statements,
        now: float,
        begin: str | None,
        bulk: Bulk,
    ) -> None:
        self._connection = connection
        self._is_ours = begin is not None
        self._cursor = self._new_cursor()
        self._statements = statements
        self._unsent: list[_Unsent] = [(begin, None, None)] if begin else []
        self._prefetched: dict[tuple[Named, str], psycopg.RawCursor[Row]] = {}
        self.has_begun = False
        self.now = now
        self.dialect: Dialect = DIALECT
        self.bulk = bulk
        self.array = DIALECT.array
        self.messages: dict[str, None] = {}
        """Whom to wake once it is committed."""
        self.has_events = False
        self.make_queues: Callable[[list[str]], None] | None = None
        """Makes queues before this does: in a transaction that may stay open for long, a new row
        would keep all others waiting who submit to that queue."""

    def all(self, statement: Named, *parameters: Cell) -> list[Row]:
        if self._prefetched:
            fetched = self._prefetched.pop((statement, repr(parameters)), None)
            if fetched is not None:
                if self._unsent:
                    self.flush()
                return fetched.fetchall()
        return self._execute(self._statements[statement], parameters).fetchall()

    def one(self, statement: Named, *parameters: Cell) -> Row | None:
        rows = self.all(statement, *parameters)
        return rows[0] if rows else None

    def run(self, statement: Named, *parameters: Cell) -> int:
        return self._execute(self._statements[statement], parameters).rowcount

    def many(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> int:
        text = self._statements[statement]
        rows = list(parameters)
        if not rows:
            return 0
        with self._connection.pipeline():
            self._send_all()
            cursors = [self._new_cursor().execute(text, row) for row in rows]
        return sum(cursor.rowcount for cursor in cursors)

    def send(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> None:
        self.has_events |= statement == "event"
        text = self._statements[statement]
        if statement == "count" and self.make_queues is not None:
            parameters = list(parameters)
            self.make_queues([row[-1] for row in parameters])
        self._unsent.extend((text, row, None) for row in parameters)

    def prefetch(self, statement: Named, *parameters: Cell) -> None:
        cursor = self._new_cursor()
        self._prefetched[statement, repr(parameters)] = cursor
        self._unsent.append((self._statements[statement], parameters, cursor))

    def delete_tasks(self, seqs: list[int]) -> None:
        self.send("purge.dated", [(repr(self.now),)])
        self.run("purge", self.array(seqs))
        self.has_events = True

    def numbers(self) -> Numbers:
        return Numbers(self.now)

    def notify(self, queues: Iterable[str], workers: Iterable[str]) -> None:
        self.messages.update((f"queue {queue}", None) for queue in queues)
        self.messages.update((f"worker {worker}", None) for worker in workers)

    def flush(self, last: str | None = None) -> None:
        """Send what is left, and this; nothing if the transaction has not begun."""
        if not self.has_begun and len(self._unsent) < 2:
            return
        if last is not None:
            self._unsent.append((last, None, None))
        with self._connection.pipeline():
            self._send_all()

    def sql(self, text: str, *parameters: Cell) -> list[Row]:
        """The rows that SQL of PostgreSQL's own gives, with the names of this store's tables."""
        return self._execute(self._statements.named(text), parameters).fetchall()

    def ddl(self, text: str) -> None:
        """Make or drop something of this store's, whose names are as in our SQL."""
        self.script(self._statements.named(text))

    def script(self, text: str) -> None:
        """Run several statements, as they are."""
        self.flush()
        self._cursor.execute(text, prepare=False)

    def _execute(self, text: str, parameters: Sequence[Cell]) -> psycopg.RawCursor[Row]:
        if not self._unsent:
            return self._cursor.execute(text, parameters)
        with self._connection.pipeline():
            self._send_all()
            self._cursor.execute(text, parameters)
        return self._cursor

    def _new_cursor(self) -> psycopg.RawCursor[Row]:
        cursor = raw_cursor(self._connection)
        if not self._is_ours:
            adapt(cursor.adapters)
        return cursor

    def _send_all(self) -> None:
        unsent, self._unsent = self._unsent, []
        self.has_begun = True
        for text, parameters, cursor in unsent:
            (cursor or self._new_cursor()).execute(text, parameters)


_inherited: list[Connection] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class Database:
    """A PostgreSQL server, used by many threads, and again after a fork."""

    dialect: Dialect = DIALECT

    def __init__(self, address: Address, clock: Callable[[], float] | None) -> None:
        self.address = address
        self.bulk: Bulk = FastBulk()
        self._given_clock = clock
        self._clock = ServerClock()
        self._statements = statements(address.schema, address.prefix)
        self._idle: list[Connection] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
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
        with self.plain() as cursor:
            return self._asked(cursor)

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """One consistent look."""
        with self._transaction(_READ) as tx:
            yield tx
            tx.flush("COMMIT")

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        """One change: all of it, or nothing."""
        with self._transaction(_WRITE) as tx:
            yield tx
            self._commit(tx)
        if tx.messages or tx.has_events:
            self._afterwards.committed(tx.messages, tx.has_events)

    @contextmanager
    def joined(self, connection: object) -> Iterator[PostgresTransaction]:
        """A part of the caller's own transaction, on the caller's connection."""
        theirs = driver_connection(connection)
        with translated(self.address.url):
            if theirs.autocommit and theirs.info.transaction_status == TransactionStatus.IDLE:
                theirs.execute("BEGIN")
            tx = PostgresTransaction(theirs, self._statements, self.clock(), None, WaryBulk())
            tx.make_queues = self._make_queues
            yield tx
            # Only the caller knows when it commits: so these are a part of it.
            if tx.messages:
                tx.send("notify.within", [(self.address.channel, list(tx.messages))])
            tx.send("notify.within", [(self.address.events_channel, [""])])
            tx.flush()

    def _make_queues(self, names: list[str]) -> None:
        with self.plain() as cursor:
            cursor.execute(self._statements["queue.make_all"], (names,))

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

    def __del__(self) -> None:
        if self._pid == os.getpid():
            for connection in self._idle:
                connection.close()

    # Connections

    @contextmanager
    def plain(self) -> Iterator[psycopg.RawCursor[Row]]:
        """A cursor outside of a transaction: each statement is one."""
        with translated(self.address.url), self._connection() as connection:
            yield raw_cursor(connection)

    def open(self, conninfo: str) -> Connection:
        """A new connection."""
        connection: Connection = psycopg.connect(
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
            yield PostgresTransaction(connection, self._statements, now, begin, self.bulk)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection = self._take()
        try:
            yield connection
        except BaseException as error:
            self._put_after(connection, error)
            raise
        self._put(connection)

    def _commit(self, tx: PostgresTransaction) -> None:
        try:
            tx.flush("COMMIT")
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

    def _take(self) -> Connection:
        """One that nobody uses, if it is still good, or a new one."""
        if self._pid != os.getpid():
            self._forget()
        while True:
            with self._guard:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if not _has_news(connection):
                return connection
            connection.close()  # an idle server says nothing, but that it hangs up
        return self.open(self.address.conninfo)

    def _put(self, connection: Connection) -> None:
        with self._guard:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _forget(self) -> None:
        """A connection must not be used, nor closed, by a forked child: leave it to the parent."""
        _inherited.extend(self._idle)
        self._idle = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

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

    def _send(self, messages: list[str], has_events: bool) -> None:
        with self.plain() as cursor:
            sent = self._statements["notify"]
            if messages:
                cursor.execute(sent, (self.address.channel, messages))
            if has_events:
                cursor.execute(sent, (self.address.events_channel, [""]))

    def _keep_up(self) -> None:
        with self.plain() as cursor:
            cursor.execute(self._statements["upkeep"])


def _has_news(connection: Connection) -> bool:
    """Whether the server has said something, or hung up, while nobody asked."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


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
