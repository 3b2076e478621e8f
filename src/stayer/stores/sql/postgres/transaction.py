"""A transaction on a PostgreSQL server: what nobody waits for goes with what somebody does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper

from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.dialect import Dialect, Statements
from stayer.stores.sql.forking import mind_forks
from stayer.stores.sql.joined import LOOKED_UP, newest
from stayer.stores.sql.postgres.dialect import DIALECT
from stayer.stores.sql.postgres.fast import SUBMIT
from stayer.stores.sql.transaction import (
    UNASKED,
    Cell,
    Composed,
    Named,
    Row,
    Transaction,
    fitted_number,
)

TURN, WHOLE = "turn.whole", "commit.whole"
"""Statements that write their events themselves."""


class _FlagLoader(Loader):
    """Booleans as 0 and 1, as they are on every database."""

    def load(self, data: bytes | bytearray | memoryview) -> int:
        return int(bytes(data) == b"t")


class _NumberLoader(Loader):
    """Numbers with a fraction, none of which is out of range."""

    def load(self, data: bytes | bytearray | memoryview) -> float:
        return fitted_number(float(bytes(data)))


def adapt(adapters: AdaptersMap) -> None:
    """What goes to the server, and comes from it, in another form than the driver has: every whole
    number has one type, whatever its size, so a statement is prepared once.
    """
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_loader("bool", _FlagLoader)
    adapters.register_loader("float8", _NumberLoader)


class _Given:
    """Up to which number this process has given them."""

    def __init__(self) -> None:
        self._last = 0
        self.after_fork()
        mind_forks(self)

    def after_fork(self) -> None:
        self._guard = threading.Lock()

    def take(self, least: int, count: int) -> int:
        with self._guard:
            first = max(least, self._last + 1)
            self._last = first + count - 1
        return first


_given = _Given()


class Numbers:
    """Numbers for the lines of histories: millionths of a second, each given once by this process.
    They need only grow in the history of each task.
    """

    def __init__(self, now: float) -> None:
        self._now = int(now * 1_000_000)

    def take(self, count: int) -> int:
        return _given.take(self._now, count)


def raw_cursor(connection: psycopg.Connection[Any]) -> psycopg.RawCursor[Row]:
    """A cursor for our statements, on whosever connection."""
    return psycopg.RawCursor(connection, row_factory=tuple_row)


_Unsent: TypeAlias = tuple[str, Sequence[Cell] | None, psycopg.RawCursor[Row] | None]
"""A statement, its parameters, and who is to have what it gives."""


class PostgresTransaction:
    """A transaction on a connection (see `Transaction`). It begins with the first statement; what
    nobody waits for goes to the server with the next one, and the last with the commit: so most
    operations take two or three round trips. One that is a single statement in the end is sent
    without BEGIN and COMMIT, which cost about as much as the statement, if `is_usual`: what the
    server has by default is what BEGIN would say.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        statements: Statements,
        now: float,
        begin: str | None,
        bulk: Bulk,
        *,
        is_usual: bool = False,
    ) -> None:
        self._connection = connection
        self._is_ours = begin is not None
        self._is_usual = is_usual
        self._cursor = self._new_cursor()
        self._statements = statements
        self._unsent: list[_Unsent] = [(begin, None, None)] if begin else []
        self._prefetched: dict[tuple[Named, str], psycopg.RawCursor[Row]] = {}
        self.has_begun = False
        self._commits = False
        self.is_committed = False
        """Whether the server was asked to commit: what goes wrong from then on leaves doubt."""
        self.now = now
        self.dialect: Dialect = DIALECT
        self.bulk = bulk
        self.array = DIALECT.array
        self.without_defaults: Sequence[str] = ()
        """Queues of which somebody has to see that they still have no defaults."""
        self.messages: dict[str, None] = {}
        """Whom to wake once it is committed."""
        self.has_events = False
        self.may_stay_open = begin is None
        self.make_queues: Callable[[list[str]], None] | None = None
        """Makes queues before this does: in a transaction that may stay open for long, a new row
        would keep all others waiting who submit to that queue."""
        self.look: Callable[[], AbstractContextManager[Transaction]] | None = None
        """Looks at what is committed by now, if this transaction sees nothing newer than itself."""

    def all(self, statement: Named, *parameters: Cell) -> list[Row]:
        self.has_events |= statement == TURN or (
            isinstance(statement, Composed) and statement.name == WHOLE
        )
        if self.look is not None and statement in LOOKED_UP:
            look, self.look = self.look, None
            try:
                with look() as other:
                    return newest(self, other, str(statement), *parameters)
            finally:
                self.look = look
        if self._prefetched:
            fetched = self._prefetched.pop((statement, repr(parameters)), None)
            if fetched is not None:
                if any(cursor is fetched for *_, cursor in self._unsent):
                    self.flush()
                return fetched.fetchall()
        return self._execute(self._statements[statement], parameters).fetchall()

    def one(self, statement: Named, *parameters: Cell) -> Row | None:
        rows = self.all(statement, *parameters)
        return rows[0] if rows else None

    def run(self, statement: Named, *parameters: Cell) -> int:
        if statement in UNASKED:
            self.send(statement, [parameters])
            return 0
        return self._execute(self._statements[statement], parameters).rowcount

    def many(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> int:
        rows = list(parameters)
        if statement in UNASKED or not rows:
            self.send(statement, rows)
            return 0
        text = self._statements[statement]
        with self._connection.pipeline():
            self._send_all()
            cursors = [self._new_cursor().execute(text, row) for row in rows]
        return sum(cursor.rowcount for cursor in cursors)

    def send(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> None:
        self.has_events |= statement in ("event", SUBMIT)
        if statement == "count" and self.make_queues is not None:
            parameters = list(parameters)
            self.make_queues([row[-1] for row in parameters])
            statement = "count.only"
        text = self._statements[statement]
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

    def commit_with_next(self) -> None:
        self._commits = True

    def commit(self) -> None:
        """Commit with all that is left, unless that is done."""
        if not self.is_committed:
            self.is_committed = True
            self.flush("COMMIT")

    def flush(self, last: str | None = None) -> None:
        """Send what is left, and this; nothing if the transaction has not begun."""
        if not self.has_begun and len(self._unsent) < 2:
            return
        if last is not None:
            if len(self._unsent) == 2 and self._is_whole():
                del self._unsent[0]
                self._send_all()
                return
            self._unsent.append((last, None, None))
        with self._connection.pipeline():
            self._send_all()
            self._commit_if_last()

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
        if not self._unsent and not self._commits:
            assert not self.is_committed, "it is committed already"
            return self._cursor.execute(text, parameters)
        if self._commits and len(self._unsent) == 1 and self._is_whole():
            self._commits, self.is_committed = False, True
            self._unsent.clear()
            return self._cursor.execute(text, parameters)
        with self._connection.pipeline():
            self._send_all()
            self._cursor.execute(text, parameters)
            self._commit_if_last()
        return self._cursor

    def _is_whole(self) -> bool:
        """Whether what is unsent, from BEGIN on, is all there was and will be."""
        return self._is_usual and not self.has_begun

    def _commit_if_last(self) -> None:
        if self._commits:
            self._commits, self.is_committed = False, True
            self._new_cursor().execute("COMMIT")

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
