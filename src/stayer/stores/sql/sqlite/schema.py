"""Versions of the tables: made and upgraded step by step, under the writer lock."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import get_args
from uuid import uuid4

from stayer.core.errors import StoreUnusable
from stayer.core.fields import STORED, Field
from stayer.stores.sql import by_hand
from stayer.stores.sql.rows import cell_kind, column, literal, never_null
from stayer.stores.sql.sqlite.database import Database, SqliteTransaction
from stayer.stores.sql.younger_columns import missing_columns

VERSION = 1
_HERE = Path(__file__).parent
_STEPS = {1: "schema.sql"}
"""What leads to each version from the one before."""

_TRIGGER = "stayer_task_by_hand"
_TRIGGER_REVISION = 7
"""Of what stands in schema.sql: to be raised with every change of it."""
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
        if version == VERSION and not (
            _is_outdated(tx) or _missing_columns(tx) or _missing_tables(tx)
        ):
            return
    with database.write() as tx:
        # Somebody else may have done it while this process stood in line.
        for step in range(_version(tx, database.path) + 1, VERSION + 1):
            for statement in _statements(_STEPS[step]):
                tx.sql(statement)
            tx.sql(_WRITE, str(step))
        tx.sql(_NAME, uuid4().hex)
        for statement in _missing_tables(tx):
            tx.sql(statement)
        for column in _missing_columns(tx):
            tx.sql(f"ALTER TABLE {column}")
        if _is_outdated(tx):
            tx.sql(f"DROP TRIGGER IF EXISTS {_TRIGGER}")
            tx.sql(_trigger())


def ddl(named: Callable[[str], str]) -> str:
    """All that makes the tables in their newest version, for whoever runs it by hand; `named` gives
    them their names.
    """
    made = [_statement for step in _STEPS.values() for _statement in _statements(step)]
    there = {name for statement in made for name in _declared(statement)}
    younger = [
        f"ALTER TABLE stayer_tasks ADD COLUMN {_declaration(field)};\n"
        for field in STORED
        if field.name not in there
    ]
    about = (
        f"INSERT INTO stayer_meta (key, value) VALUES ('schema', '{VERSION}'), "
        "('identity', lower(hex(randomblob(16))));\n"
    )
    script = "".join((*made, *younger, about))
    return named(f"PRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n{script}COMMIT;\n")


def _declared(statement: str) -> set[str]:
    """The columns that a statement declares, if it makes the table of tasks."""
    if "CREATE TABLE stayer_tasks" not in statement:
        return set()
    return set(re.findall(r'^    "?([a-z_]+)"?[ ,]', statement, re.MULTILINE))


def _missing_columns(tx: SqliteTransaction) -> list[str]:
    return missing_columns(partial(_columns, tx), _declaration, "TEXT")


def _declaration(field: Field) -> str:
    """The column of a field as ALTER TABLE … ADD COLUMN has it."""
    kind = cell_kind(field)
    declared = column(field.name) if kind == "any" else f"{column(field.name)} {kind.upper()}"
    if not never_null(field):
        return declared
    return f"{declared} NOT NULL DEFAULT {literal(field.default)}"


def _columns(tx: SqliteTransaction, table: str) -> set[str]:
    return {name for (name,) in tx.sql(f"SELECT name FROM pragma_table_info('{table}')")}


def _missing_tables(tx: SqliteTransaction) -> list[str]:
    """What makes the tables that are younger than this file, without another version, too."""
    named = tx.named("stayer_files")
    if tx.sql("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", named):
        return []
    return [each for each in _statements(_STEPS[1]) if "CREATE TABLE stayer_files " in each]


def _is_outdated(tx: SqliteTransaction) -> bool:
    """Whether the trigger for rows by hand is one of an older Stayer. It is replaced without
    another version of the tables, which an older Stayer would refuse: it need not know.
    """
    rows = tx.sql(f"SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = '{_TRIGGER}'")
    return not rows or _revision(rows[0][0]) < _revision(_trigger())


def _revision(trigger: str) -> int:
    found = re.search("-- revision ([0-9]{1,9})", trigger)
    return int(found[1]) if found else 1


@lru_cache
def _trigger() -> str:
    [found] = [each for each in _statements(_STEPS[1]) if f"CREATE TRIGGER {_TRIGGER} " in each]
    return found


def _statements(file: str) -> list[str]:
    """The statements of a script, with what follows from the table of fields filled in."""
    script = (_HERE / file).read_text(encoding="utf-8")
    meant = {
        "revision": by_hand.revision(_TRIGGER_REVISION),
        "texts": "\n    ".join(
            f"SELECT raise(ABORT, '{by_hand.too_long(name, most)}')\n"
            f"    WHERE length(new.{column(name)}) > {most.characters};"
            for name, most in by_hand.longest().items()
        ),
        "queue places": ", ".join(f"'$.{field.name}'" for field in by_hand.OF_QUEUE),
        "queue defaults": ",\n        ".join(
            f"{column(name)} = ifnull(new.{column(name)}, json_extract(q.defaults, '$.{name}'))"
            for name in (field.name for field in by_hand.OF_QUEUE)
        ),
        "policy fields": ", ".join(f"'{field.name}'" for field in by_hand.POLICY),
        "policy kinds": "\n            ".join(
            f"WHEN key = '{field.name}' THEN {_policy_condition(field)}"
            for field in by_hand.POLICY
            if field.kind != "seconds"
        ),
    }
    for word, text in meant.items():
        script = script.replace(f"{{{word}}}", text)
    return _split(script)


def _policy_condition(field: Field) -> str:
    """What holds for a field of a policy, as json_each gives it, if it is of its kind."""
    match field.kind:
        case "whole":
            return "type = 'integer' AND atom BETWEEN 0 AND 2147483647"
        case "bytes":
            return "type = 'null' OR (type = 'integer' AND atom >= 0)"
        case "number":
            return "type IN ('integer', 'real') AND atom BETWEEN 1 AND 100"
        case "words":
            return "type = 'array'"
        case "flag":
            return "type IN ('true', 'false')"
        case "choice":
            words = ", ".join(f"'{word}'" for word in get_args(field.type))
            return f"atom IN ({words})" + (" OR type = 'null'" if field.optional else "")
        case _:
            return "type IN ('text', 'null')"


def _version(tx: SqliteTransaction, path: str) -> int:
    if not tx.sql(_KNOWN):
        return 0
    rows = tx.sql(_READ)
    try:
        version = int(rows[0][0]) if rows else 0
    except ValueError:
        raise StoreUnusable(
            f"{path}: the version of its tables can't be read: fix it in "
            f"{tx.named('stayer_meta')}, or restore the file from a backup"
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
