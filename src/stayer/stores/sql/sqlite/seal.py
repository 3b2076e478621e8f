"""The triggers that keep everybody from changing a store that is being moved, or was."""

from __future__ import annotations

from stayer.stores.sql.sealing import PREFIX, SEALED
from stayer.stores.sql.sqlite.database import SqliteTransaction

_VERBS = ("insert", "update", "delete")
_TRIGGER = """
CREATE TRIGGER {name} BEFORE {verb} ON {table}
WHEN EXISTS (SELECT 1 FROM stayer_meta WHERE key = 'seal')
BEGIN
    SELECT raise(ABORT, '{message}');
END
"""


def put_triggers(tx: SqliteTransaction, message: str) -> None:
    """Refuse every change from now on, with this message."""
    drop_triggers(tx)
    for table in SEALED:
        for verb in _VERBS:
            text = PREFIX + message.replace("'", "''")
            name = _name(table, verb)
            tx.sql(_TRIGGER.format(name=name, verb=verb.upper(), table=table, message=text))


def drop_triggers(tx: SqliteTransaction) -> None:
    """Let everybody change things again."""
    for table in SEALED:
        for verb in _VERBS:
            tx.sql(f"DROP TRIGGER IF EXISTS {_name(table, verb)}")


def _name(table: str, verb: str) -> str:
    return f"stayer_sealed_{table.removeprefix('stayer_')}_{verb}"
