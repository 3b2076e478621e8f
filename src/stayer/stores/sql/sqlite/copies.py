"""Copies of a SQLite file: whole, as it was at one moment, in one file without a log beside it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from urllib.parse import quote

from stayer.core.errors import StoreUnusable


def copy_file(source: sqlite3.Connection | str, path: str) -> None:
    """Write all of a database to another file, while others go on; a file is only read. Raises
    StoreUnusable if it is damaged.
    """
    opened = _only_read(source) if isinstance(source, str) else source
    copy = sqlite3.connect(path)
    try:
        os.chmod(path, 0o600)
        opened.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        (said,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreUnusable(f"{path} can't be made: {error}") from error
    finally:
        copy.close()
        if opened is not source:
            opened.close()
    if said != "ok":
        raise StoreUnusable(f"the database is damaged, and so is a copy of it: {said}")


def end_log(path: str) -> None:
    """Put all into the file itself, so that it can be read where nothing can be written."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    finally:
        connection.close()


def sealed_prefix(path: str) -> str | None:
    """Return what the tables of the store in this file that bears a seal begin with; None: there is
    none.
    """
    connection = sqlite3.connect(path)
    try:
        named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%meta'"
        for (table,) in connection.execute(named).fetchall():
            looks = f"SELECT 1 FROM \"{table}\" WHERE key = 'seal'"
            with suppress(sqlite3.DatabaseError):
                if connection.execute(looks).fetchone():
                    return str(table).removesuffix("meta")
        return None
    finally:
        connection.close()


def _only_read(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)
