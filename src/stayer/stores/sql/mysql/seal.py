"""The triggers that keep everybody from changing a store that is being moved, or was.

To make one commits what was done before, and can't be rolled back; so the mark is there first, and
the triggers, which look for it, are the same for every mark. To make one also waits for those who
are changing that table: once all are there, nobody changes anything who has not seen the mark.
Events are left out: whoever watches gives them their numbers, and reading goes on.
"""

from __future__ import annotations

from stayer.stores.sql.mysql.transaction import MySqlTransaction
from stayer.stores.sql.sealing import PREFIX, SEALED

_TABLES = tuple(table for table in SEALED if table != "stayer_events")
_TRIGGERS = {
    f"stayer_sealed_{table.removeprefix('stayer_')}_{verb}": (table, verb)
    for table in _TABLES
    for verb in ("insert", "update", "delete")
}
_TRIGGER = f"""
CREATE TRIGGER {{name}} BEFORE {{verb}} ON {{table}} FOR EACH ROW
BEGIN
    IF EXISTS (SELECT 1 FROM stayer_meta WHERE "key" = 'seal') THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{PREFIX}sealed';
    END IF;
END
"""
SEALED_MESSAGE = f"{PREFIX}sealed"
"""What such a trigger says: the server cuts off what is longer than 128 characters."""


def put_triggers(tx: MySqlTransaction) -> None:
    """Make those that are not there."""
    there = {
        name
        for (name,) in tx.sql(
            "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = database()"
        )
    }
    for name, (table, verb) in _TRIGGERS.items():
        if tx.named(name) not in there:
            tx.sql(_TRIGGER.format(name=name, table=table, verb=verb.upper()))


def drop_triggers(tx: MySqlTransaction) -> None:
    """Let everybody change things again."""
    for name in _TRIGGERS:
        tx.sql(f"DROP TRIGGER IF EXISTS {name}")
