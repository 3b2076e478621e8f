"""SQLite: one file, one machine, nothing to install."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress

import msgspec

from stayer.config import default_store
from stayer.core.errors import BadConfig, BadInput, StayerError, StoreMoved, StoreUnusable
from stayer.core.insight.health import Finding
from stayer.stores.sql.sqlite.damage import Mending
from stayer.stores.sql.sqlite.database import Database
from stayer.stores.sql.sqlite.errors import Unreadable
from stayer.stores.sql.sqlite.health import check
from stayer.stores.sql.sqlite.rights import SHARED, as_shared
from stayer.stores.sql.store import SqlStore
from stayer.stores.sql.table_names import DEFAULT_PREFIX, checked_prefix

IN_MEMORY = "sqlite:///:memory:"
"""What others call a store in memory, too."""
_SYNCHRONOUS = ("normal", "full", "extra", "off")


def open_store(url: str, clock: Callable[[], float] | None = None) -> SqlStore:
    """`sqlite:///relative/path.db` or `sqlite:////absolute/path.db`, `?synchronous=full`,
    `&shared=group`, `&prefix=jobs_`; `sqlite:///:memory:` is the store `memory:`.
    """
    path, _, query = url.removeprefix("sqlite:").partition("?")
    if url == IN_MEMORY:
        from stayer.stores.sql.sqlite import memory

        return memory.open_store("memory:", clock)
    _refuse_memory(url, _unquote(path).lower(), query.lower())
    if not path.startswith("///") or path == "///":
        raise BadConfig(
            f"store {url!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db"
        )
    options = {"synchronous": "normal", "shared": "no"}
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        options[name.lower()] = value
    prefix = checked_prefix(url, options.pop("prefix", DEFAULT_PREFIX))
    synchronous, shared = options["synchronous"].lower(), as_shared(options["shared"].lower())
    if len(options) > 2 or synchronous not in _SYNCHRONOUS or shared is None:
        raise BadConfig(
            f"store {url!r}: the only options are synchronous={'|'.join(_SYNCHRONOUS)}, "
            f"shared={'|'.join(SHARED)} and prefix=… of the tables"
        )
    place = os.path.abspath(_unquote(path[3:]))
    return SqliteStore(url, Database(place, synchronous, clock, shared, prefix))


def _refuse_memory(url: str, path: str, query: str) -> None:
    """What others call a database in memory would be a file of that name here."""
    if ":memory:" in path or path.lstrip("/").startswith("file:") or "mode=memory" in query:
        raise BadConfig(
            f"store {url!r}: a store in memory is written memory: (or {IN_MEMORY}), without "
            "options. Or give the path of a file: sqlite:///relative/path.db or "
            "sqlite:////absolute/path.db"
        )


def _unquote(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path)


def _make_default_folder(url: str, folder: str) -> None:
    """Any other folder is the user's to make: it may be a slip of the pen."""
    with suppress(BadInput):  # nobody has a home here, so this is not in it
        if url == default_store(os.environ):
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            except OSError as error:
                raise StoreUnusable(
                    f"{folder} can't be made: {error.strerror}. Make it, or set STAYER_STORE"
                ) from error


_DAMAGED = (
    Unreadable, msgspec.MsgspecError, ArithmeticError, AssertionError, AttributeError, LookupError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What an operation may fail with where a row is not what it should be."""


def _may_be_damage(error: Exception) -> bool:
    """Whether it may come from what is in the tables, not from what was asked."""
    if isinstance(error, StoreMoved):
        return False
    if isinstance(error, StayerError) and not isinstance(error, Unreadable):
        return isinstance(error.__cause__, ArithmeticError | sqlite3.IntegrityError)
    return isinstance(error, _DAMAGED)


class SqliteStore(SqlStore):
    """The contract on a SQLite file."""

    _database: Database

    def __init__(self, url: str, database: Database) -> None:
        super().__init__(url, database)
        self.path: str = database.path
        self.mending = Mending(database)

    def is_made(self) -> bool:
        """Whether there is a file; what is in it, `setup` sees."""
        return os.path.exists(self.path)

    def setup(self) -> None:
        """Make or upgrade the tables, and the folder that is the default."""
        _make_default_folder(self.url, os.path.dirname(self.path))
        super().setup()

    def copy_to(self, path: str) -> None:
        """Write all of it to another file, as it is at one moment, while others go on."""
        self._database.copy_to(path)

    def check(self) -> list[Finding]:
        """What `stayer doctor` asks."""
        return check(self._database)

    def should_try_again(self, error: Exception, tries: int) -> bool:
        """Once more after what can't be read was set aside."""
        if super().should_try_again(error, tries):
            return True
        return tries == 1 and _may_be_damage(error) and self.mending.mend()
