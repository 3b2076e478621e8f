"""The triggers that keep everybody from changing a store that is being moved, or was.

To make them waits for those who are changing a table, and keeps others out until then. Events are
left out: whoever watches gives them their numbers, and reading goes on.
"""

from __future__ import annotations

from stayer.stores.sql.postgres.transaction import PostgresTransaction
from stayer.stores.sql.sealing import PREFIX, SEALED

_TABLES = tuple(table for table in SEALED if table != "stayer_events")
_FUNCTION = """
CREATE OR REPLACE FUNCTION stayer_sealed() RETURNS trigger
LANGUAGE plpgsql AS $function$
BEGIN
    -- Or it can't be seen by a transaction that began before: the triggers are as new as the mark.
    IF EXISTS (SELECT 1 FROM stayer_meta WHERE key = 'seal')
        OR NOT pg_visible_in_snapshot('{since}'::xid8, pg_current_snapshot())
    THEN
        RAISE EXCEPTION USING MESSAGE = '{message}';
    END IF;
    RETURN NULL;
END
$function$
"""
_TRIGGER = """
CREATE TRIGGER sealed BEFORE INSERT OR UPDATE OR DELETE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION stayer_sealed()
"""


def put_triggers(tx: PostgresTransaction, message: str) -> None:
    """Refuse every change from now on, with this message."""
    drop_triggers(tx)
    text = (PREFIX + message).replace("'", "''")
    [(since,)] = tx.sql("SELECT pg_current_xact_id()::text")
    tx.ddl(_FUNCTION.format(message=text, since=since))
    for table in _TABLES:
        tx.ddl(_TRIGGER.format(table=table))


def drop_triggers(tx: PostgresTransaction) -> None:
    """Let everybody change things again."""
    for table in _TABLES:
        tx.ddl(f"DROP TRIGGER IF EXISTS sealed ON {table}")
    tx.ddl("DROP FUNCTION IF EXISTS stayer_sealed()")
