"""What a task needs to know that comes within a transaction of the caller's own.

Such a transaction may see nothing that is newer than itself (REPEATABLE READ, SERIALIZABLE), and
may stay open for an hour. So what others have committed is looked up by a connection of our own,
and nothing is locked that is there already.
"""

from __future__ import annotations

from stayer.stores.sql.transaction import Cell, Row, Transaction

ROLL_BACK = "others were in the way of your transaction: roll it back and try again"
"""What a caller has to do where only the whole transaction can be tried again."""
LOOKED_UP = frozenset((
    "get", "queue.defaults", "states", "submit.holders", "submit.purged", "upstreams.purged",
))  # fmt: skip
"""What is asked of both, but for settings. The first column of the others is an id."""


def newest(own: Transaction, other: Transaction, statement: str, *parameters: Cell) -> list[Row]:
    """What is committed by now, and what the caller's transaction has itself written.

    What only it sees is either its own, or has gone or changed since it began: of that others know
    at least the id.
    """
    found = other.all(statement, *parameters)
    if statement == "queue.defaults":
        return found  # such a transaction changes no settings
    seen = {row[0] for row in found}
    mine = [row for row in own.all(statement, *parameters) if row[0] not in seen]
    if not mine:
        return found
    ids = other.array(row[0] for row in mine)
    known = {id for id, _ in other.all("states", ids)}
    known |= {id for id, _ in other.all("upstreams.purged", ids, 0.0)}
    return [*found, *(row for row in mine if row[0] not in known)]
