"""Versions of the tables: made and upgraded step by step, under the writer lock."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from stayer.core.errors import StoreUnusable
from stayer.stores.sql.sqlite.database import Database, SqliteTransaction

VERSION = 1
_HERE = Path(__file__).parent
_STEPS = {1: "schema.sql"}
"""What leads to each version from the one before."""

_TRIGGER = "stayer_task_by_hand"
_KNOWN = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'stayer_meta'"
_READ = "SELECT value FROM stayer_meta WHERE key = 'schema'"
_WRITE = (
    "INSERT INTO stayer_meta (key, value) VALUES ('schema', ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)

_NAME = "INSERT INTO stayer_meta (key, value) VALUES ('identity', ?) ON CONFLICT (key) DO NOTHING"


def setup(database: Database) -> None:
    """Bring the tables to VERSION; only looks if they are there already."""
    with database.read() as tx:
        version = _version(tx, database.path)
        outdated = version == VERSION and _is_outdated(tx)
    if outdated:
        with database.write() as tx:
            if _is_outdated(tx):
                tx.sql(f"DROP TRIGGER IF EXISTS {_TRIGGER}")
                tx.sql(_trigger())
    if version == VERSION:
        return
    with database.write() as tx:
        # Somebody else may have done it while this process stood in line.
        for step in range(_version(tx, database.path) + 1, VERSION + 1):
            for statement in _split((_HERE / _STEPS[step]).read_text(encoding="utf-8")):
                tx.sql(statement)
            tx.sql(_WRITE, str(step))
        tx.sql(_NAME, uuid4().hex)


def _is_outdated(tx: SqliteTransaction) -> bool:
    """Whether the trigger for rows by hand is one of an older Stayer. It is replaced without
    another version of the tables, which an older Stayer would refuse: it need not know.
    """
    rows = tx.sql("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?", _TRIGGER)
    return not rows or _revision(rows[0][0]) < _revision(_trigger())


def _revision(trigger: str) -> int:
    found = re.search("-- revision ([0-9]{1,9})", trigger)
    return int(found[1]) if found else 1


@lru_cache
def _trigger() -> str:
    script = (_HERE / _STEPS[1]).read_text(encoding="utf-8")
    [found] = [each for each in _split(script) if f"CREATE TRIGGER {_TRIGGER} " in each]
    return found


def _version(tx: SqliteTransaction, path: str) -> int:
    if not tx.sql(_KNOWN):
        return 0
    rows = tx.sql(_READ)
    try:
        version = int(rows[0][0]) if rows else 0
    except ValueError:
        raise StoreUnusable(
            f"{path}: the version of its tables can't be read: fix it in stayer_meta, or restore "
            "the file from a backup"
        ) from None
    if version > VERSION:
        raise StoreUnusable(
            f"{path} was made by a newer Stayer (tables of version {version}, this one knows "
            f"{VERSION}): upgrade Stayer here, or choose another store"
        )
    return version


def _split(script: str) -> list[str]:
    """The statements of a script; `executescript` would commit, and so give the lock away."""
    import sqlite3

    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return [statement for statement in statements if statement.strip()]
