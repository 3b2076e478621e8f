"""SQLite in memory: a store for the tests and notebooks of one process.

Each is one connection that threads use in turn. `memory:` is a fresh store each time that it is
opened; `memory:NAME` is the same one wherever this process opens it, until it is discarded.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NoReturn
from weakref import WeakSet

from stayer.core.errors import BadConfig, BadInput, StoreUnusable
from stayer.core.insight.health import Finding
from stayer.stores.sql.sqlite.database import BUSY, Database, SqliteTransaction
from stayer.stores.sql.sqlite.errors import translated
from stayer.stores.sql.sqlite.health import check
from stayer.stores.sql.store import SqlStore

_WHERE = "the store in memory"


def open_store(url: str, clock: Callable[[], float] | None = None) -> MemoryStore:
    """`memory:`, or `memory:NAME` for one that this process may open again."""
    name = _name(url)
    if "?" in name:
        raise BadConfig(f"store {url!r}: a store in memory has no options: write memory:NAME")
    if (open_already := _opened.get(name)) is not None and clock is None:
        return open_already
    return MemoryStore(url, open_database(url, clock))


def open_database(url: str, clock: Callable[[], float] | None) -> MemoryDatabase:
    """Open what a store stands on."""
    name = _name(url)
    return MemoryDatabase(_named(name) if name else _Memory(), clock)


def share(url: str, store: MemoryStore) -> None:
    """Let whoever opens this URL get this very store, with its clock, until it is discarded."""
    _opened[_name(url)] = store


def discard(url: str) -> None:
    """Forget the store of this name: whoever opens it next gets an empty one."""
    with _naming:
        _by_name.pop(_name(url), None)
        _opened.pop(_name(url), None)


def _name(url: str) -> str:
    return url.removeprefix("memory:").removeprefix("//")


class MemoryBell:
    """Rings when somebody has written to this store."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def wait(self, timeout: float) -> bool:
        rang = self._rung.wait(timeout)
        self._rung.clear()
        return rang

    def ring(self) -> None:
        self._rung.set()

    def close(self) -> None:
        """Nothing is held."""


class _Memory:
    """A database, the lock that gives threads their turn, and who hears of changes."""

    def __init__(self) -> None:
        self.sqlite = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.turn = threading.RLock()
        self.bells: WeakSet[MemoryBell] = WeakSet()
        self.process = os.getpid()

    @property
    def lock(self) -> _NoLock:
        return _NO_LOCK

    def close(self) -> None:
        """It stays for as long as somebody has it."""


class _NoLock:
    """Stands where a file has the lock of its writers."""

    def held(self, timeout: float) -> nullcontext[None]:
        return nullcontext()


class _NoCarrier:
    """Stands where a file has a log to be carried over."""

    def written(self, rows: int) -> None:
        pass

    def close(self) -> None:
        pass


_NO_LOCK = _NoLock()
_naming = threading.Lock()
_by_name: dict[str, _Memory] = {}
_opened: dict[str, MemoryStore] = {}


def _named(name: str) -> _Memory:
    with _naming:
        found = _by_name.get(name)
        # A forked child has a copy that nobody else would see: it gets one of its own.
        if found is None or found.process != os.getpid():
            found = _by_name[name] = _Memory()
        return found


class MemoryDatabase(Database):
    """A database in memory, used by many threads of one process."""

    def __init__(self, memory: _Memory, clock: Callable[[], float] | None) -> None:
        super().__init__(_WHERE, "off", clock)
        self._memory = memory
        self._carrier = _NoCarrier()

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """One change: all of it, or nothing; then whoever waits is woken."""
        with super().write() as tx:
            yield tx
        for bell in list(self._memory.bells):
            bell.ring()

    def joined(self, connection: object) -> NoReturn:
        """Refuse: nobody else has a connection to it."""
        raise BadInput(
            "a task can't be a part of your transaction in a store in memory, for that has no "
            "tables of yours: give a file, sqlite:///path.db"
        )

    def close(self) -> None:
        """Nothing to do: it stays for as long as somebody has it."""

    def after_fork(self) -> None:
        """Leave it to the parent: see `_connection`."""

    @contextmanager
    def _connection(self) -> Iterator[_Memory]:
        memory = self._memory
        if memory.process != os.getpid():
            raise StoreUnusable(
                f"{_WHERE} belongs to process {memory.process}, which this one was forked from: "
                "open a store of its own here, or use a file, sqlite:///path.db"
            )
        with memory.turn, translated(_WHERE, BUSY):
            try:
                yield memory
            except BaseException:
                if memory.sqlite.in_transaction:
                    memory.sqlite.execute("ROLLBACK")
                raise

    def _bell(self) -> MemoryBell:
        bell = MemoryBell()
        self._memory.bells.add(bell)
        return bell


class MemoryStore(SqlStore):
    """The contract in memory."""

    _database: MemoryDatabase

    def check(self) -> list[Finding]:
        """What `stayer doctor` asks."""
        return check(self._database)
