"""Versions of the tables: made and upgraded step by step, in one transaction, under a lock."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import get_args
from uuid import uuid4

from stayer.core.errors import StoreUnusable
from stayer.core.fields import Field
from stayer.stores.sql import by_hand, history
from stayer.stores.sql.journal import EVENTS_KEPT, TRIMMED_EVERY
from stayer.stores.sql.postgres.database import Database
from stayer.stores.sql.postgres.dialect import quote_name
from stayer.stores.sql.postgres.transaction import PostgresTransaction
from stayer.stores.sql.postgres.url import Address
from stayer.stores.sql.rows import cell_kind, column, literal, never_null
from stayer.stores.sql.table_names import with_prefix
from stayer.stores.sql.younger_columns import missing_columns

VERSION = 1
LOCK_PATIENCE_S = 3
"""For how long changing a table waits for those who use it, in seconds: all others stand behind
that, though it may be for somebody's transaction that stays open for an hour."""
_HERE = Path(__file__).parent
_REVISION = 8
"""Of the functions in schema.sql: to be raised with every change of them."""
_TYPES = {
    "text": 'text COLLATE "C"', "integer": "bigint", "real": "double precision", "any": "text",
}  # fmt: skip


def setup(database: Database) -> None:
    """Bring the tables to VERSION; only looks if they are there already."""
    with database.read() as tx:
        if is_current(tx, database.address):
            return
    with database.write() as tx:
        # Somebody else may have done it while this process stood in line.
        tx.sql("SELECT pg_advisory_xact_lock($1)", database.address.key)
        if is_current(tx, database.address):
            return
        tx.sql("SELECT set_config('lock_timeout', $1, true)", f"{LOCK_PATIENCE_S}s")
        _upgrade(tx, database.address)


def ddl(address: Address) -> str:
    """All that makes the tables, for whoever has the right to do so and runs it by hand."""
    return "\n".join(
        (
            "BEGIN;",
            *_in_schema(address),
            *_parts(address),
            f"INSERT INTO {with_prefix('stayer_meta', address.prefix)} (key, value)",
            f"VALUES ('schema', '{VERSION}'), ('functions', '{_revision()}'),",
            "    ('identity', replace(gen_random_uuid()::text, '-', ''));",
            "COMMIT;",
            "",
        )
    )


def _upgrade(tx: PostgresTransaction, address: Address) -> None:
    for statement in _in_schema(address, exists=_has_schema(tx, address)):
        tx.script(statement)
    tables, functions, triggers = _parts(address)
    if version(tx, address) == 0:
        tx.script(tables)
        tx.script(functions)
        tx.script(triggers)
    elif _functions(tx) < _revision():
        tx.ddl("ALTER TABLE stayer_queues ADD COLUMN IF NOT EXISTS lined_until xid8")
        tx.script(functions)
    for declared in _missing_columns(tx):
        tx.script(with_prefix(f"ALTER TABLE {declared}", address.prefix))
    for key, value in (("schema", VERSION), ("functions", max(_revision(), _functions(tx)))):
        tx.script(
            with_prefix(
                f"INSERT INTO stayer_meta (key, value) VALUES ('{key}', '{value}') "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                address.prefix,
            )
        )
    tx.run("identity.make", uuid4().hex)


def _in_schema(address: Address, exists: bool = False) -> list[str]:
    if address.schema is None:
        return []
    schema = quote_name(address.schema)
    make = [] if exists else [f"CREATE SCHEMA IF NOT EXISTS {schema};"]
    return [*make, f"SET LOCAL search_path TO {schema}, pg_catalog;"]


def _has_schema(tx: PostgresTransaction, address: Address) -> bool:
    return bool(tx.sql("SELECT 1 FROM pg_namespace WHERE nspname = $1", address.schema))


def is_current(tx: PostgresTransaction, address: Address) -> bool:
    """Whether there is nothing to make or upgrade."""
    return (
        version(tx, address) == VERSION
        and _functions(tx) >= _revision()
        and not _missing_columns(tx)
    )


def _missing_columns(tx: PostgresTransaction) -> list[str]:
    return missing_columns(partial(_columns, tx), _declaration, "text")


def _columns(tx: PostgresTransaction, table: str) -> set[str]:
    rows = tx.sql(
        "SELECT attname FROM pg_attribute "
        f"WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    return {name for (name,) in rows}


def _declaration(field: Field) -> str:
    kind = "boolean" if field.kind == "flag" else _TYPES[cell_kind(field)]
    declared = f"{column(field.name)} {kind}"
    if not never_null(field):
        return declared
    default = str(field.default).lower() if field.kind == "flag" else literal(field.default)
    return f"{declared} NOT NULL DEFAULT {default}"


def version(tx: PostgresTransaction, address: Address) -> int:
    """That of the tables; 0 if there are none."""
    [(known,)] = tx.sql("SELECT to_regclass('stayer_meta') IS NOT NULL")
    rows = tx.sql("SELECT value FROM stayer_meta WHERE key = 'schema'") if known else []
    try:
        found = int(rows[0][0]) if rows else 0
    except ValueError:
        raise StoreUnusable(
            f"{address.url}: the version of its tables can't be read: fix it in stayer_meta, or "
            "restore the database from a backup"
        ) from None
    if found > VERSION:
        raise StoreUnusable(
            f"{address.url} was made by a newer Stayer (tables of version {found}, this one "
            f"knows {VERSION}): upgrade Stayer here, or choose another store"
        )
    return found


def _functions(tx: PostgresTransaction) -> int:
    """The revision of the functions that are there; they are replaced without another version of
    the tables.
    """
    rows = tx.sql("SELECT value FROM stayer_meta WHERE key = 'functions'")
    return int(rows[0][0]) if rows and str(rows[0][0]).isdigit() else 0


def _revision() -> int:
    return int(by_hand.revision(_REVISION))


@lru_cache
def _parts(address: Address) -> tuple[str, str, str]:
    """Tables, functions and triggers, with what follows from the table of fields filled in."""
    script = (_HERE / "schema.sql").read_text(encoding="utf-8")
    meant = {
        "key": str(address.key),
        "channel": address.channel,
        "events channel": address.events_channel,
        "kept": str(EVENTS_KEPT),
        "room": str(history.LONGEST - 500),
        "once in": str(TRIMMED_EVERY),
        "texts": "\n    ".join(
            f"IF length(new.{column(name)}) > {most.characters} THEN\n"
            f"        RAISE EXCEPTION '{by_hand.too_long(name, most)}';\n"
            "    END IF;"
            for name, most in by_hand.longest().items()
        ),
        "queue names": ", ".join(f"'{field.name}'" for field in by_hand.OF_QUEUE),
        "queue defaults": ",\n        ".join(map(_queue_default, by_hand.OF_QUEUE)),
        "policy fields": ", ".join(f"'{field.name}'" for field in by_hand.POLICY),
        "policy kinds": "\n            ".join(
            f"WHEN key = '{field.name}' THEN {_policy_condition(field)}"
            for field in by_hand.POLICY
            if field.kind != "seconds"
        ),
    }
    for word, text in meant.items():
        script = script.replace(f"{{{word}}}", text)
    tables, rest = with_prefix(script, address.prefix).split("-- functions\n")
    functions, triggers = rest.split("-- triggers\n")
    return tables, functions, triggers


def _queue_default(field: Field) -> str:
    """What gives a column the queue's default if it has nothing."""
    cast = {"integer": "::bigint", "real": "::double precision"}.get(cell_kind(field), "")
    name = column(field.name)
    return f"{name} = coalesce(new.{name}, (usual ->> '{field.name}'){cast})"


def _policy_condition(field: Field) -> str:
    """What holds for a field of a policy, by the type and the text of its JSON, if it is of its
    kind.
    """
    match field.kind:
        case "whole":
            return _number("atom ~ '^[0-9]{1,10}$' AND atom::numeric <= 2147483647")
        case "bytes":
            return "type = 'null' OR " + _number("atom ~ '^[0-9]{1,18}$'")
        case "number":
            return _number("atom::numeric BETWEEN 1 AND 100")
        case "words":
            return "type = 'array'"
        case "flag":
            return "type = 'boolean'"
        case "choice":
            words = ", ".join(f"'{word}'" for word in get_args(field.type))
            return f"coalesce(atom IN ({words}), false)" + (
                " OR type = 'null'" if field.optional else ""
            )
        case _:
            return "type IN ('string', 'null')"


def _number(condition: str) -> str:
    return f"CASE WHEN type = 'number' THEN {condition} ELSE false END"
