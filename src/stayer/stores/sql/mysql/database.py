"""Connections to a server: a pool, transactions, its clock, and a way to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stayer.core.errors import BadInput, Refused, StoreMoved
from stayer.stores.sql import sealing
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.forking import mind_forks
from stayer.stores.sql.joined import ROLL_BACK
from stayer.stores.sql.mysql import driver, upkeep
from stayer.stores.sql.mysql.bulk import FewTrips
from stayer.stores.sql.mysql.dialect import CompiledStatements, statements
from stayer.stores.sql.mysql.driver import Connection, Joined
from stayer.stores.sql.mysql.errors import (
    DUPLICATE,
    NOT_AS_EXPECTED,
    SIGNALLED,
    BrokenUp,
    code_of,
    translation,
)
from stayer.stores.sql.mysql.seal import SEALED_MESSAGE
from stayer.stores.sql.mysql.transaction import MySqlTransaction, Numbers
from stayer.stores.sql.mysql.wake import PollingWaiter
from stayer.stores.sql.pool import ConnectionPool
from stayer.stores.sql.server_clock import ServerClock
from stayer.stores.sql.submit import IdTaken
from stayer.stores.sql.table_names import DEFAULT_PREFIX
from stayer.stores.sql.transaction import Transaction

NOW = "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) / 1e6"
"""The server's clock, whatever the time zone."""
_LOOK = (b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", b"START TRANSACTION READ ONLY")


class Database:
    """A database of a server, used by many threads, and again after a fork."""

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        clock: Callable[[], float] | None,
        prefix: str = DEFAULT_PREFIX,
        driver_name: str | None = None,
    ) -> None:
        self.url = url
        """As it may be shown: without the password."""
        self.prefix = prefix
        self.bulk: Bulk = FewTrips()
        self._given_clock = clock
        self._clock = ServerClock()
        self._options = dict(options)
        self._driver = driver.load(driver_name)
        self._collation: str | None = None
        self.pool = ConnectionPool(self._connect, Connection.is_alive)
        self._upkeep = upkeep.Pace()
        self.numbers = Numbers()
        mind_forks(self)

    def setup(self) -> None:
        """Make or upgrade the tables."""
        from stayer.stores.sql.mysql import schema  # which is written in terms of this

        schema.setup(self)

    def clock(self) -> float:
        """The server's time, as it was said a moment ago, or by asking."""
        if self._given_clock is not None:
            return self._given_clock()
        known = self._clock.read()
        if known is None:
            with self.looking() as tx:
                known = self._clock.set(float(tx.sql(f"SELECT {NOW}")[0][0]))
        return known

    def ddl(self) -> str:
        """All that makes the tables, as text."""
        from stayer.stores.sql.mysql import schema

        with self.looking() as tx:
            return schema.ddl(self.prefix, tx.collation)

    def refuse_changes(self, tx: Transaction, message: str | None) -> None:
        """Make the triggers of a sealed store, or drop them. Commits what was done before."""
        from stayer.stores.sql.mysql import seal

        assert isinstance(tx, MySqlTransaction)
        tx.committing = True  # the first of these does
        if message is None:
            seal.drop_triggers(tx)
        else:
            seal.put_triggers(tx)

    @contextmanager
    def read(self) -> Iterator[MySqlTransaction]:
        """One consistent look."""
        with self.pool.lent() as connection:
            tx = self._transaction(connection)
            with self._translated(tx, connection.errors):
                tx.defer(_LOOK)
                yield tx
                tx.exchange([b"COMMIT"])

    @contextmanager
    def write(self) -> Iterator[MySqlTransaction]:
        """One change: all of it, or nothing."""
        with self.pool.lent() as connection:
            tx = self._transaction(connection)
            with self._translated(tx, connection.errors):
                tx.defer([b"START TRANSACTION"])
                yield tx
                for queue in sorted(tx.lines_of):
                    upkeep.mend_lines(tx, queue)
                tx.commit()
        self._upkeep.written(self, tx)

    @contextmanager
    def joined(self, connection: object) -> Iterator[MySqlTransaction]:
        """A part of the caller's own transaction, on the caller's connection."""
        joined = Joined(connection)
        with self.pool.lent() as own:
            found = self._statements(own)
        tx = MySqlTransaction(self, joined, found, self.clock(), may_stay_open=True)
        with self._translated(tx, joined.errors):
            joined.begin(found.dialect.collation)
            try:
                yield tx
                tx.exchange([])
            finally:
                joined.end()

    def number_events(self) -> None:
        """Give events that are committed and have no number for watchers yet the next ones."""
        upkeep.number_events(self)

    def tidy(self) -> None:
        """Add up differences, number events, and mend lines."""
        upkeep.add_up(self)
        with self.write() as tx:
            for (queue,) in tx.all("lines.queues"):
                upkeep.mend_lines(tx, queue)
        self.number_events()

    def make_queue(self, name: str) -> bool:
        """Enter a queue that has tasks and no row, in a transaction of its own; whether it has
        tasks."""
        with self.write() as tx:
            if not tx.all("queue.running", name):
                return False
            tx.run("queue.make", name)
        return True

    def waiter(self, worker: str | None, queues: Sequence[str]) -> PollingWaiter:
        """Hears of work in these queues and of orders to this worker."""

        def mark() -> object:
            with self.looking() as tx:
                return tx.one("wakes", tx.array(queues), worker)

        return PollingWaiter(mark)

    def event_waiter(self) -> PollingWaiter:
        """Hears of events."""

        def mark() -> object:
            with self.looking() as tx:
                return tx.one("events.mark")

        return PollingWaiter(mark)

    @contextmanager
    def looking(self) -> Iterator[MySqlTransaction]:
        """One statement that only looks, in one round trip."""
        with self.pool.lent() as connection:
            tx = MySqlTransaction(self, connection, self._statements(connection), 0.0)
            with self._translated(tx, connection.errors):
                yield tx

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        self.pool.close()

    def after_fork(self) -> None:
        """Numbers that the parent has drawn are its own."""
        self._upkeep = upkeep.Pace()
        self.numbers = Numbers()

    @contextmanager
    def _translated(
        self,
        tx: MySqlTransaction,
        errors: tuple[type[Exception], ...],
    ) -> Iterator[None]:
        """Raise the driver's errors as ours. An id that is there already is known only when the
        packet is sent."""
        try:
            yield
        except errors as error:
            if code_of(error) in (DUPLICATE, NOT_AS_EXPECTED) and tx.inserting:
                raise IdTaken from error
            if code_of(error) == SIGNALLED and SEALED_MESSAGE in str(error):
                raise self._moved() from error
            meant = translation(self.url, error, committing=tx.committing)
            if tx.may_stay_open and isinstance(meant, BrokenUp):
                raise Refused(f"{self.url}: {ROLL_BACK} ({error})") from error
            raise meant from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadInput(f"{self.url} can't keep this value: {error}") from error

    def _moved(self) -> StoreMoved:
        """What the mark says, which the triggers have no room for."""
        with self.looking() as tx:
            seal = sealing.read_seal(tx)
        return StoreMoved(f"{self.url}: {'it was moved' if seal is None else seal.message}")

    def _connect(self) -> Connection:
        try:
            return Connection(self._driver, self._options, self._collation)
        except (self._driver.Error, OSError) as error:
            raise translation(self.url, error, committing=False) from error

    def _statements(self, connection: Connection) -> CompiledStatements:
        return statements(connection.collation, self.prefix)

    def _transaction(self, connection: Connection) -> MySqlTransaction:
        return MySqlTransaction(self, connection, self._statements(connection), self.clock())
