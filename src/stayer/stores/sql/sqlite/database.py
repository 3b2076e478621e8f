"""Connections to a SQLite file: a pool, transactions, and SQLite's errors in our words."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stayer.core.errors import BadInput, StoreUnreachable, StoreUnusable
from stayer.stores.sql.notices import COLUMNS as NOTICE_COLUMNS
from stayer.stores.sql.rows import (
    FIRST_CREATED,
    NEW_COLUMNS,
    NEW_VALUES,
    RESERVED_COLUMNS,
    SCHEDULE_COLUMNS,
    SHARE,
    TASK_COLUMNS,
    UNUSUAL,
)
from stayer.stores.sql.sqlite import rights
from stayer.stores.sql.sqlite.lock import LockTimeout, WriterLock
from stayer.stores.sql.sqlite.wal_checkpointer import Carrier
from stayer.stores.sql.transaction import Cell, Row, load_statements

BUSY = 10.0
"""How long a writer waits for its turn, in seconds."""
_IDLE = 8
"""How many unused connections are kept."""
_HERE = Path(__file__).parent
_PRAGMAS = """
PRAGMA synchronous = {synchronous};
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -32000;
PRAGMA temp_store = MEMORY;
"""


def statements() -> dict[str, str]:
    """The named statements of this dialect."""
    texts = load_statements(_HERE / "statements.sql") | load_statements(_HERE / "notices.sql")
    stand_ins = {
        "task": TASK_COLUMNS,
        "new": NEW_COLUMNS,
        "new_values": NEW_VALUES,
        "schedule": SCHEDULE_COLUMNS,
        "reserved": RESERVED_COLUMNS,
        "first_created": FIRST_CREATED,
        "unusual": UNUSUAL,
        "share": SHARE,
        "notice": NOTICE_COLUMNS,
    } | {part: texts[part] for part in ("unneeded", "taken", "completed", "plainly")}
    for word, meant in stand_ins.items():
        texts = {name: text.replace(f"{{{word}}}", meant) for name, text in texts.items()}
    return texts


class Unreadable(StoreUnusable):
    """A cell of a table is not what it should be."""


class SqliteTransaction:
    """A transaction on a connection (see `Transaction`). A statement is a name, or SQL itself."""

    def __init__(
        self, connection: sqlite3.Connection, statements: dict[str, str], now: float
    ) -> None:
        self._execute = connection.execute
        self._connection = connection
        self._statements = statements
        self.now = now

    def all(self, statement: str, *parameters: Cell) -> list[Row]:
        return self._execute(self._statements.get(statement, statement), parameters).fetchall()

    def one(self, statement: str, *parameters: Cell) -> Row | None:
        # Fetched to the end: SQLite finishes a statement with RETURNING only then.
        rows = self._execute(self._statements.get(statement, statement), parameters).fetchall()
        return rows[0] if rows else None

    def each(self, statement: str, *parameters: Cell) -> Iterator[Row]:
        """As `all`, one at a time."""
        yield from self._execute(statement, parameters)

    def run(self, statement: str, *parameters: Cell) -> int:
        return self._execute(self._statements.get(statement, statement), parameters).rowcount

    def many(self, statement: str, parameters: Iterable[Sequence[Cell]]) -> int:
        sql = self._statements.get(statement, statement)
        return self._connection.executemany(sql, parameters).rowcount


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


_inherited: list[_Connection] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class Database:
    """A SQLite file, used by many threads, and again after a fork."""

    def __init__(
        self,
        path: str,
        synchronous: str,
        clock: Callable[[], float] | None,
        shared: rights.Shared = "no",
    ) -> None:
        self.path = path
        self._shared = shared
        self.clock = clock or time.time
        self._synchronous = synchronous
        self._statements = statements()
        self._idle: list[_Connection] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._carrier = Carrier(path, synchronous)

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """One consistent look."""
        with self._connection() as connection:
            connection.sqlite.execute("BEGIN")
            yield self._transaction(connection)
            connection.sqlite.execute("COMMIT")

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """One change, in turn with the other writers: all of it, or nothing."""
        with self._connection() as connection, connection.lock.held(BUSY):
            connection.sqlite.execute("BEGIN IMMEDIATE")
            before = connection.sqlite.total_changes
            try:
                yield self._transaction(connection)
                connection.sqlite.execute("COMMIT")
                self._carrier.written(connection.sqlite.total_changes - before)
            except BaseException:
                # A full disk has rolled back already.
                if connection.sqlite.in_transaction:
                    connection.sqlite.execute("ROLLBACK")
                raise

    def joined(self, connection: sqlite3.Connection) -> SqliteTransaction:
        """A part of the caller's own transaction, on the caller's connection."""
        return SqliteTransaction(connection, self._statements, self.clock())

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        if self._pid != os.getpid():
            self._forget()
        self._carrier.close()
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        with translated(self.path):
            connection = self._take()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._put(connection)

    def _take(self) -> _Connection:
        if self._pid != os.getpid():
            self._forget()
        with self._guard:
            if self._idle:
                return self._idle.pop()
        return _Connection(self.path, self._synchronous, self._shared)

    def _put(self, connection: _Connection) -> None:
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
        self._carrier = Carrier(self.path, self._synchronous)

    def _transaction(self, connection: _Connection) -> SqliteTransaction:
        return SqliteTransaction(connection.sqlite, self._statements, self.clock())


@contextmanager
def translated(path: str) -> Iterator[None]:
    """SQLite's errors as ours, with what to do."""
    try:
        yield
    except LockTimeout as error:
        who = " and ".join(f"process {pid}" for pid in error.holders) or "another process"
        raise StoreUnreachable(
            f"{path} has been locked by {who} for over {BUSY:.0f} s: is it stopped or stuck? "
            "Continue or end it"
        ) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise BadInput(f"{path} can't keep this value: {error}") from error
    except sqlite3.IntegrityError as error:
        raise BadInput(f"{path} refuses this: {error}") from error
    except sqlite3.Error as error:
        raise _translation(path, error) from error


def _translation(path: str, error: sqlite3.Error) -> StoreUnreachable | StoreUnusable:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnreachable(
                f"{path} has been locked by another process for over {BUSY:.0f} s: end it, or wait"
            )
        case sqlite3.SQLITE_FULL:
            return StoreUnusable(
                f"the disk of {path} is full: nothing was changed. Free some space"
            )
        case sqlite3.SQLITE_IOERR:
            return StoreUnusable(
                f"{path} can't be read or written ({error}): nothing was changed. Is the disk full "
                "or failing?"
            )
        case sqlite3.SQLITE_READONLY:
            return StoreUnusable(
                f"{path} is read-only for this user: nothing was changed. Fix the permissions of "
                "the file and its folder, or choose another store"
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return StoreUnusable(
                f"{path} is not a database, or is damaged ({error}): choose another store, or "
                "restore it from a backup"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnusable(f"{path} can't be opened: {_why_not(path)}")
        case _:
            pass
    if "Could not decode to UTF-8" in str(error) or "malformed JSON" in str(error):
        return Unreadable(
            f"{path} has something in it that can't be read ({error}): `stayer doctor` says what"
        )
    if "no such table: stayer_" in str(error) or "no such column" in str(error):
        return StoreUnusable(f"{path} has no Stayer tables, or old ones: run `stayer init`")
    return StoreUnusable(f"{path}: {error}")


def _why_not(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder}. Make it, or choose another store"
    if os.path.isdir(path):
        return "it is a folder. Give the path of a file"
    if not os.access(folder, os.W_OK):
        return f"this user may not write in {folder}, as SQLite must. Fix its permissions"
    return "this user may not open it. Fix its permissions"
