"""Versions of the tables: made and upgraded step by step, under a lock of the server.

What defines tables can't be rolled back here. So each statement can be run again, the version is
written behind the last one of a step, and whoever comes next goes on where another one stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import get_args
from uuid import uuid4

from stayer.core.errors import StoreUnreachable, StoreUnusable
from stayer.core.fields import Field
from stayer.stores.sql import by_hand
from stayer.stores.sql.mysql.database import NOW, Database
from stayer.stores.sql.mysql.dialect import NUMBERS
from stayer.stores.sql.mysql.literals import literal
from stayer.stores.sql.mysql.transaction import MySqlTransaction
from stayer.stores.sql.rows import cell_kind, column, never_null
from stayer.stores.sql.rows import literal as sql_literal
from stayer.stores.sql.table_names import with_prefix
from stayer.stores.sql.younger_columns import missing_columns

VERSION = 1
_STEPS = {1: "schema.sql"}
"""What leads to each version from the one before."""
_HERE = Path(__file__).parent
_TRIGGERS_REVISION = 4
"""Of the triggers in schema.sql: to be raised with every change of them."""
_TYPES = {"text": "LONGTEXT", "integer": "BIGINT", "real": "DOUBLE", "any": "LONGBLOB"}
_IDS = {
    ("stayer_tasks", "id"): "NOT NULL CHECK (id <> '')",
    ("stayer_schedules", "last_task"): "",
    ("stayer_upstreams", "upstream"): "NOT NULL",
    ("stayer_outbox", "id"): "NOT NULL",
    ("stayer_purged", "id"): "NOT NULL",
    ("stayer_notices", "task"): "NOT NULL",
}
"""Where ids of tasks are, which had 200 characters at most."""
_LOCK_WAIT = 60
LOCK_PATIENCE_S = 3
"""For how long changing a table waits for those who use it, in seconds: all others stand behind
that, though it may be for somebody's transaction that stays open for an hour."""
_META: dict[str, Callable[[], str]] = {"identity": lambda: uuid4().hex, "numbered": lambda: "0"}
"""What there is from the beginning."""


def setup(database: Database) -> None:
    """Bring the tables to VERSION; only looks if they are there already."""
    with database.looking() as tx:
        if (
            version(tx, database.url) == VERSION
            and not triggers_to_make(tx)
            and not _changed_columns(tx)
            and not _missing_tables(tx)
        ):
            return
        name = f"stayer.{database.prefix}.{tx.sql('SELECT database()')[0][0]}"[:64]
        [(got,)] = tx.sql(f"SELECT get_lock({literal(name).decode()}, {_LOCK_WAIT})")
        if got != 1:
            raise StoreUnreachable(
                f"{database.url}: somebody else changes its tables just now: try again later"
            )
        [(usual,)] = tx.sql("SELECT @@lock_wait_timeout")
        tx.sql(f"SET SESSION lock_wait_timeout = {LOCK_PATIENCE_S}")
        try:
            _upgrade(tx, database.url)
        finally:
            tx.sql(f"SET SESSION lock_wait_timeout = {usual}")
            tx.sql(f"DO release_lock({literal(name).decode()})")


def _upgrade(tx: MySqlTransaction, url: str) -> None:
    """Somebody else may have done it, or a part of it, while this one waited."""
    for step in range(version(tx, url) + 1, VERSION + 1):
        for statement in tables(_STEPS[step], tx.collation):
            tx.sql(statement)
        for key, value in _META.items():
            tx.sql(
                f"INSERT INTO stayer_meta VALUES ('{key}', '{value()}') ON DUPLICATE KEY UPDATE "
                "value = value"
            )
        _change_columns(tx)  # triggers name them
        _make_triggers(tx)
        tx.sql(
            f"INSERT INTO stayer_meta VALUES ('schema', '{step}') ON DUPLICATE KEY UPDATE value = "
            f"'{step}'"
        )
    for statement in _missing_tables(tx):
        tx.sql(statement)
    _change_columns(tx)
    _make_triggers(tx)


def _change_columns(tx: MySqlTransaction) -> None:
    for changed in _changed_columns(tx):
        tx.sql(f"ALTER TABLE {changed}")


def _make_triggers(tx: MySqlTransaction) -> None:
    for name, statement in triggers_to_make(tx).items():
        tx.sql(f"DROP TRIGGER IF EXISTS {name}")
        tx.sql(statement)


def triggers_to_make(tx: MySqlTransaction) -> dict[str, str]:
    """Those that are missing or of an older Stayer. They are replaced without another version of
    the tables, which an older Stayer would refuse: it need not know.
    """
    there = {
        name: _revision(text)
        for name, text in tx.sql(
            "SELECT trigger_name, action_statement FROM information_schema.triggers "
            "WHERE trigger_schema = database()"
        )
    }
    return {
        name: text
        for name, text in triggers().items()
        if there.get(tx.named(name), 0) < _revision(text)
    }


def _revision(trigger: str) -> int:
    found = re.search("-- revision ([0-9]{1,9})", trigger)
    return int(found[1]) if found else 0


def _changed_columns(tx: MySqlTransaction) -> list[str]:
    """Columns that are younger than these tables, or have more room now: an older Stayer need not
    know.
    """
    changed = missing_columns(partial(_columns, tx), _declaration, "LONGTEXT")
    if _columns(tx, "stayer_meta")["value"] == "text":
        changed.append("stayer_meta MODIFY value LONGTEXT NOT NULL")
    short = tx.sql(
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = database() AND character_maximum_length = 200"
    )
    changed += [
        f"{table} MODIFY {name} VARCHAR(256) {rest}"
        for (table, name), rest in _IDS.items()
        if (tx.named(table), name) in short
    ]
    return changed


def _columns(tx: MySqlTransaction, table: str) -> dict[str, str]:
    """Return the columns of a table, and their types."""
    rows = tx.sql(
        "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_schema = database() AND table_name = '{tx.named(table)}'"
    )
    return dict(rows)


def _missing_tables(tx: MySqlTransaction) -> list[str]:
    """What makes the tables that are younger than these: an older Stayer needs none."""
    there = tx.sql(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = database() "
        f"AND table_name = '{tx.named('stayer_files')}'"
    )
    wanted = "CREATE TABLE IF NOT EXISTS stayer_files "
    made = [] if there else tables(_STEPS[1], tx.collation)
    return [statement for statement in made if statement.startswith(wanted)]


def _declaration(field: Field) -> str:
    declared = f"{column(field.name)} {_TYPES[cell_kind(field)]}"
    return (
        f"{declared} NOT NULL DEFAULT ({sql_literal(field.default)})"
        if never_null(field)
        else declared
    )


def version(tx: MySqlTransaction, url: str) -> int:
    """That of the tables; 0 if there are none."""
    known = tx.sql(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = database() "
        f"AND table_name = '{tx.named('stayer_meta')}'"
    )
    rows = tx.sql("SELECT value FROM stayer_meta WHERE \"key\" = 'schema'") if known else []
    try:
        found = int(rows[0][0]) if rows else 0
    except ValueError:
        raise StoreUnusable(
            f"{url}: the version of its tables can't be read: fix it in "
            f"{tx.named('stayer_meta')}, or restore the "
            "database from a backup"
        ) from None
    if found > VERSION:
        raise StoreUnusable(
            f"{url} was made by a newer Stayer (tables of version {found}, this one knows "
            f"{VERSION}): upgrade "
            "Stayer here, or choose another store"
        )
    return found


def ddl(prefix: str, collation: str) -> str:
    """All of it, for an administrator who runs it with the client `mysql` or `mariadb`."""
    made = [f"{statement};" for statement in tables(_STEPS[VERSION], collation)]
    made += [
        f"INSERT INTO stayer_meta VALUES ('{key}', '{value()}') ON DUPLICATE KEY UPDATE value = "
        "value;"
        for key, value in _META.items()
    ]
    for name, text in triggers().items():
        made += [f"DROP TRIGGER IF EXISTS {name};", "DELIMITER $$", f"{text}$$", "DELIMITER ;"]
    made.append(
        f"INSERT INTO stayer_meta VALUES ('schema', '{VERSION}') ON DUPLICATE KEY UPDATE value = "
        f"'{VERSION}';"
    )
    mode = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,PIPES_AS_CONCAT';"
    return with_prefix("\n\n".join([mode, *made]), prefix) + "\n"


def tables(file: str, collation: str) -> list[str]:
    """The statements of a script that define tables and views."""
    return [
        each.replace(
            "{table}", f"ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}"
        ).replace("{collation}", collation)
        for each in _statements(file)
        if not each.startswith("CREATE TRIGGER")
    ]


@lru_cache
def triggers() -> dict[str, str]:
    """Those of the newest version, by name."""
    made = [each for each in _statements(_STEPS[1]) if each.startswith("CREATE TRIGGER")]
    return {each.split()[2]: each for each in made}


@lru_cache
def _statements(file: str) -> list[str]:
    """The statements of a script, with what follows from the table of fields filled in."""
    script = (_HERE / file).read_text(encoding="utf-8")
    policy = by_hand.POLICY
    meant = {
        "revision": by_hand.revision(_TRIGGERS_REVISION),
        "texts": "\n        ".join(
            f"IF char_length(NEW.{column(name)}) > {most.characters} THEN\n"
            "            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = "
            f"'{by_hand.too_long(name, most)}';\n"
            "        END IF;"
            for name, most in by_hand.longest().items()
        ),
        "now": NOW,
        "numbers": str(NUMBERS),
        "policy fields": ", ".join(f"'{field.name}'" for field in policy),
        "policy kinds": "\n            AND ".join(_policy_condition(field) for field in policy),
        "queue defaults": "\n            ".join(
            (
                *(_policy_default(field.name) for field in policy if field.row.of_queue),
                *map(_queue_default, by_hand.OF_QUEUE),
            )
        ),
    }
    for word, text in meant.items():
        script = script.replace(f"{{{word}}}", text)
    return _split(script)


def _queue_default(field: Field) -> str:
    """What gives a column the queue's default if it has nothing."""
    usual = f"json_extract(usual, '$.{field.name}')"
    if field.kind in ("text", "choice"):
        usual = f"json_unquote({usual})"
    elif cell_kind(field) != "text":
        usual += " + 0"
    name = column(field.name)
    return f"SET NEW.{name} = coalesce(NEW.{name}, {usual});"


def _policy_default(name: str) -> str:
    """What gives a policy the queue's default if it has none. `json_merge_patch` would do it for
    all, but for a mistake of MariaDB's: it passes over what stands before a null.
    """
    own, usual = (f"json_extract({place}, '$.{name}')" for place in ("NEW.policy", "usual"))
    return (
        f"IF {own} IS NULL AND {usual} IS NOT NULL THEN "
        f"SET NEW.policy = json_set(NEW.policy, '$.{name}', {usual}); END IF;"
    )


def _policy_condition(field: Field) -> str:
    """What holds for a field of a policy, if it is there, and of its kind."""
    value = f"json_extract(NEW.policy, '$.{field.name}')"
    # As bytes: what JSON functions answer has a collation of its own, which does not go with ours.
    kind = f"CAST(json_type({value}) AS BINARY)"
    whole = f"{kind} LIKE '%INTEGER'"
    number = f"{kind} IN ('INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL')"
    match field.kind:
        case "seconds":
            holds = f"{kind} = 'NULL' OR ({number} AND {value} + 0 BETWEEN 0 AND 3155760000)"
        case "whole":
            holds = f"{whole} AND {value} + 0 BETWEEN 0 AND 2147483647"
        case "bytes":
            holds = f"{kind} = 'NULL' OR ({whole} AND {value} + 0 >= 0)"
        case "number":
            holds = f"{number} AND {value} + 0 BETWEEN 1 AND 100"
        case "words":
            holds = f"{kind} = 'ARRAY'"
        case "flag":
            holds = f"{kind} = 'BOOLEAN'"
        case "choice":
            words = ", ".join(f"'{word}'" for word in get_args(field.type))
            holds = f"CAST(json_unquote({value}) AS BINARY) IN ({words})" + (
                f" OR {kind} = 'NULL'" if field.optional else ""
            )
        case _:
            holds = f"{kind} IN ('STRING', 'NULL')"
    return f"({value} IS NULL OR {holds})"


def _split(script: str) -> list[str]:
    """The statements of a script: a line that ends with a semicolon ends one, or `END;` that of a
    trigger."""
    statements: list[str] = []
    current: list[str] = []
    for line in script.splitlines():
        if not current and (not line.strip() or line.startswith("--")):
            continue
        current.append(line)
        is_trigger = current[0].startswith("CREATE TRIGGER")
        if line == "END;" if is_trigger else line.endswith(";"):
            statements.append("\n".join(current).removesuffix(";"))
            current = []
    return statements
