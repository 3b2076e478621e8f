"""What `stayer doctor` asks of a SQLite file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stayer.core.insight.health import Finding
from stayer.core.model import STATES
from stayer.stores.sql.sqlite import damage
from stayer.stores.sql.sqlite.damage import Damage
from stayer.stores.sql.sqlite.database import Database, SqliteTransaction

_DAMAGES = 3
"""How many damages are listed."""


def check(database: Database) -> list[Finding]:
    """Integrity, then the counters, which only make sense if it is whole."""
    with database.read() as tx:
        integrity = _integrity(tx)
        if integrity.status != "ok":
            return [integrity]
        return [integrity, *_damage(tx)]


def _integrity(tx: SqliteTransaction) -> Finding:
    said = [str(row[0]) for row in tx.sql(f"PRAGMA quick_check({_DAMAGES})")]
    if said == ["ok"]:
        return Finding("integrity", "ok", "no damage found")
    todo = "stop all workers, copy the file, then restore it from a backup or with `.recover`"
    return Finding("integrity", "fail", f"damaged: {'; '.join(said)}", todo)


def _damage(tx: SqliteTransaction) -> Iterator[Finding]:
    """Rows that can't be read, and those that were set aside; and the counters."""
    if found := damage.find(tx):
        todo = (
            "fix or delete these rows; where somebody comes across them, they are set aside by "
            "themselves"
        )
        yield Finding("damage", "warn", f"can't be read: {_listed(found)}", todo)
        return  # nor be counted
    if known := damage.list_set_aside(tx):
        todo = (
            f"submit what is missing again; the table {tx.named('stayer_damaged')} has it as it "
            f"was. When that is seen to: DELETE FROM {tx.named('stayer_damaged')}"
        )
        yield Finding("damage", "warn", f"could not be read, set aside: {_listed(known)}", todo)
    else:
        yield Finding("damage", "ok", "every row can be read")
    yield _counters(tx)


def _listed(damages: Sequence[Damage]) -> str:
    said = [f"{each.table} {each.row}: {each.column} {each.problem}" for each in damages[:_DAMAGES]]
    more = len(damages) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more else "")


def _counters(tx: SqliteTransaction) -> Finding:
    kept = {
        (name, state): number
        for name, *numbers in tx.sql(f"SELECT name, {', '.join(STATES)} FROM stayer_queues")
        for state, number in zip(STATES, numbers, strict=True)
        if number
    }
    counted = Counter(
        {
            (queue, state): number
            for queue, state, number in tx.sql(
                "SELECT queue, state, count(*) FROM stayer_tasks GROUP BY queue, state"
            )
        }
    )
    wrong = sorted({queue for (queue, _), _ in kept.items() ^ counted.items()})
    if not wrong:
        return Finding("counters", "ok", f"right for {sum(counted.values()):,} tasks")
    table = tx.named("stayer_tasks")
    todo = f"was a row of {table} changed by hand? Please report it otherwise"
    return Finding("counters", "warn", f"wrong for {', '.join(wrong)}", todo)
