"""What `stayer doctor` asks of a SQLite file."""

from __future__ import annotations

from collections import Counter

from stayer.core.model import STATES
from stayer.stores.findings import Finding
from stayer.stores.sql.sqlite.database import Database, SqliteTransaction

_DAMAGES = 3
"""How many damages are listed."""


def check(database: Database) -> list[Finding]:
    """Integrity, then the counters, which only make sense if it is whole."""
    with database.read() as tx:
        integrity = _integrity(tx)
        return [integrity, _counters(tx)] if integrity.status == "ok" else [integrity]


def _integrity(tx: SqliteTransaction) -> Finding:
    said = [str(row[0]) for row in tx.all(f"PRAGMA quick_check({_DAMAGES})")]
    if said == ["ok"]:
        return Finding("integrity", "ok", "no damage found")
    todo = "stop all workers, copy the file, then restore it from a backup or with `.recover`"
    return Finding("integrity", "fail", f"damaged: {'; '.join(said)}", todo)


def _counters(tx: SqliteTransaction) -> Finding:
    kept = {
        (name, state): number
        for name, *numbers in tx.all(f"SELECT name, {', '.join(STATES)} FROM stayer_queues")
        for state, number in zip(STATES, numbers, strict=True)
        if number
    }
    counted = Counter(
        {
            (queue, state): number
            for queue, state, number in tx.all(
                "SELECT queue, state, count(*) FROM stayer_tasks GROUP BY queue, state"
            )
        }
    )
    wrong = sorted({queue for (queue, _), _ in kept.items() ^ counted.items()})
    if not wrong:
        return Finding("counters", "ok", f"right for {sum(counted.values()):,} tasks")
    todo = "was a row of stayer_tasks changed by hand? Please report it otherwise"
    return Finding("counters", "warn", f"wrong for {', '.join(wrong)}", todo)
