"""Rows that can't be read: found by what the tables declare, and set aside.

Anybody may write to the file, and SQLite keeps what it is given: text that is not UTF-8, a blob in
the place of a number. Reading is strict, which costs next to nothing as long as all is well. What
can't be read makes an operation fail; then the damaged cells are looked for, kept in
`stayer_damaged` as they were, and replaced, and the operation is tried again. A task that waits and
is damaged has failed by that, and says why: nothing stands behind it for long.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from stayer.core.decoding import json_decoder
from stayer.core.flows.model import Part
from stayer.core.limits import quote
from stayer.core.model import JSON, QUEUED, Fault
from stayer.core.queue_model import Kept
from stayer.core.schedules.model import unpack_task
from stayer.core.worker_model import Handles
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.sealing import lift_seal
from stayer.stores.sql.sqlite.database import Database, SqliteTransaction

logger = logging.getLogger("stayer.store")

_TABLES = (
    "stayer_queues", "stayer_workers", "stayer_schedules", "stayer_tasks", "stayer_events",
    "stayer_upstreams", "stayer_outbox", "stayer_notices", "stayer_flows", "stayer_history",
    "stayer_shares", "stayer_usage", "stayer_checkpoints", "stayer_logs", "stayer_figures",
    "stayer_purged", "stayer_files",
)  # fmt: skip
"""Queues first: what becomes of a task is counted in its queue."""
_AT_ONCE = 1000
"""How many rows are seen to in one step."""
_KEPT = 10_000
"""How many damaged cells are kept."""
_LARGEST = 2**53
_LATEST = 1e13
_LOOK_PAUSE_S = 60.0
"""How long nobody looks again after a look that found nothing, in seconds."""
_MAKE = """
CREATE TABLE IF NOT EXISTS stayer_damaged (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    "table" TEXT NOT NULL,
    "row" TEXT NOT NULL, -- its key, as far as it can be read
    "column" TEXT NOT NULL,
    problem TEXT NOT NULL,
    value -- as it was
)
"""
_ASCII = "('*[^' || char(1) || '-' || char(127) || ']*')"


def _json(kind: Any) -> Callable[[str], object]:
    return json_decoder(kind).decode


_READ: dict[tuple[str, str], tuple[Callable[[str], object], str | None]] = {
    ("stayer_queues", "key_limits"): (_json(dict[str, int]), None),
    ("stayer_queues", "retention"): (_json(dict[Kept, float]), None),
    ("stayer_queues", "notify"): (_json(tuple[str, ...]), None),
    ("stayer_workers", "queues"): (_json(tuple[str, ...]), "[]"),
    ("stayer_workers", "handles"): (_json(Handles), None),
    ("stayer_schedules", "task"): (unpack_task, None),
    ("stayer_events", "ids"): (_json(tuple[str, ...]), "[]"),
    ("stayer_notices", "record"): (_json(dict[str, JSON]), "{}"),
    ("stayer_flows", "parts"): (_json(tuple[Part, ...]), "[]"),
}
"""Columns whose text is read as JSON, and what is put in the place of what can't be."""


_LONGEST_LEASE_S = 86400.0
_CAREFULLY = {
    ("stayer_workers", "lease"): _LONGEST_LEASE_S,
    ("stayer_workers", "keeps"): 1,
    ("stayer_workers", "dead"): 1,
}
"""What is put in the place of a number if 0 would do harm: a worker without a lease, or one that
keeps its tasks, would be declared lost with all that it runs (its next beat says how it is); and
one that was declared lost would come to life again."""


class _Column(Struct, frozen=True):
    """A column as its table declares it."""

    name: str
    kind: str
    needed: bool
    default: object
    is_key: bool

    @property
    def quoted(self) -> str:
        return f'"{self.name}"'


class Damage(Struct, frozen=True):
    """A cell that can't be read."""

    table: str
    row: str
    column: str
    problem: str


class _Cell(Struct, frozen=True):
    """What is wrong with a cell, and what comes in its place; `lost`: nothing can."""

    problem: str
    mended: object
    value: object
    lost: bool = False


def list_set_aside(tx: SqliteTransaction) -> list[Damage]:
    """What was set aside, the newest first."""
    if not tx.sql("SELECT 1 FROM sqlite_master WHERE name = 'stayer_damaged'"):
        return []
    rows = tx.sql(
        'SELECT "table", "row", "column", problem FROM stayer_damaged '
        "ORDER BY number DESC LIMIT 100"
    )
    return [Damage(*row) for row in rows]


def find(tx: SqliteTransaction) -> list[Damage]:
    """What can't be read now."""
    found = []
    for table in _TABLES:
        for key, cells in _damaged(tx, table):
            found += [
                Damage(tx.named(table), _named(key), name, cell.problem)
                for name, cell in cells.items()
            ]
    return found


class Mending:
    """Sets aside what can't be read, when an operation has failed for it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._not_before = 0.0

    def mend(self) -> bool:
        """Whether something was found, and set aside."""
        if time.monotonic() < self._not_before:
            return False
        with self._database.read() as tx:
            found = [(table, key) for table in _TABLES for key, _ in _damaged(tx, table)]
        if found:
            with self._database.write() as tx:
                tx.sql(_MAKE)
                with lift_seal(tx):
                    damages = [damage for place in found for damage in _set_aside(tx, *place)]
                tx.sql("DELETE FROM stayer_damaged WHERE number <= (SELECT max(number) FROM "
                       "stayer_damaged) - ?", _KEPT)  # fmt: skip
            for damage in damages:
                logger.warning(
                    "set aside in %s, row %s: %s %s (the table %s has it as it was)",
                    damage.table, damage.row, damage.column, damage.problem,
                    tx.named("stayer_damaged"),
                )  # fmt: skip
        else:
            self._not_before = time.monotonic() + _LOOK_PAUSE_S
        return bool(found)


Key = tuple[tuple[str, str, object], ...]
"""How a row is named: the columns of its key, what kind of value each has, and which."""


def _columns(tx: SqliteTransaction, table: str) -> list[_Column]:
    found = []
    for _, name, kind, needed, default, key, hidden in tx.sql(f"PRAGMA table_xinfo({table})"):
        if not hidden:
            given = default.strip("'") if isinstance(default, str) else default
            found.append(_Column(name, kind.upper(), bool(needed), given, key > 0))
    return found


def _damaged(tx: SqliteTransaction, table: str) -> Iterator[tuple[Key, dict[str, _Cell]]]:
    """Rows with cells that can't be read; no more than can be seen to at once."""
    columns = _columns(tx, table)
    suspicious = " OR ".join(_suspicion(table, column) for column in columns)
    number = 0
    for row in _raw(tx, table, columns, suspicious):
        key, cells = _looked_at(table, columns, row)
        if cells:
            yield key, cells
            number += 1
            if number == _AT_ONCE:
                return


def _suspicion(table: str, column: _Column) -> str:
    """A condition that holds for every damaged cell, and for few others."""
    name = column.quoted
    match column.kind:
        case "INTEGER":
            usual = f"typeof({name}) = 'integer' AND {name} BETWEEN -{_LARGEST} AND {_LARGEST}"
        case "REAL":
            usual = f"typeof({name}) = 'real' AND {name} BETWEEN -{_LATEST} AND {_LATEST}"
        case "BLOB":
            usual = f"typeof({name}) = 'blob'"
        case "TEXT":
            usual = f"typeof({name}) = 'text' AND {_is_ascii(name)}"
            if (table, column.name) in _READ:
                usual = "0"
        case _:
            usual = f"typeof({name}) <> 'text' OR {_is_ascii(name)}"
    return f"({name} IS NOT NULL AND NOT coalesce({usual}, 0))"


def _is_ascii(name: str) -> str:
    """A condition that holds for text of ASCII alone. GLOB sees no further than a NUL, and neither
    does the length of a text.
    """
    return f"({name} NOT GLOB {_ASCII} AND length({name}) = length(CAST({name} AS BLOB)))"


def _raw(
    tx: SqliteTransaction, table: str, columns: list[_Column], where: str, *values: object
) -> Iterator[tuple[Any, ...]]:
    """Rows with the kind and the bytes of each cell."""
    cells = ", ".join(
        f"typeof({each.quoted}), "
        f"iif(typeof({each.quoted}) = 'text', CAST({each.quoted} AS BLOB), {each.quoted})"
        for each in columns
    )
    yield from tx.each(f"SELECT {cells} FROM {table} WHERE {where}", *values)


def _looked_at(
    table: str, columns: list[_Column], row: tuple[Any, ...]
) -> tuple[Key, dict[str, _Cell]]:
    cells: dict[str, _Cell] = {}
    key = []
    for position, column in enumerate(columns):
        kind, value = row[2 * position], row[2 * position + 1]
        if column.is_key:
            key.append((column.name, kind, value))
        if value is not None and (cell := _problem(table, column, kind, value)) is not None:
            cells[column.name] = cell
    return tuple(key), cells


def _problem(table: str, column: _Column, kind: str, value: Any) -> _Cell | None:
    match column.kind:
        case "INTEGER" | "REAL":
            is_number = kind == ("integer" if column.kind == "INTEGER" else "real")
            if is_number and abs(value) <= (_LARGEST if column.kind == "INTEGER" else _LATEST):
                return None
            number = column.default if _is_number(column.default) else 0 if column.needed else None
            with_default = _CAREFULLY.get((table, column.name), number)
            return _Cell(f"is no number that fits: {_quoted(value)}", with_default, value,
                         lost=column.is_key)  # fmt: skip
        case "BLOB":
            return None if kind == "blob" else _Cell("is no bytes", _as_bytes(value), value)
        case "TEXT":
            return _problem_of_text(table, column, kind, value)
        case _:
            if kind != "text" or _is_utf8(value):
                return None
            return _Cell("is not UTF-8 text, and kept as bytes", bytes(value), value)


def _problem_of_text(table: str, column: _Column, kind: str, value: Any) -> _Cell | None:
    if not isinstance(value, bytes):  # text columns turn numbers into text by themselves
        return _Cell(f"is no text: {_quoted(value)}", str(value), value)
    text = value.decode(errors="replace")
    read = _READ.get((table, column.name))
    if read is not None:
        try:
            read[0](value.decode())
        except Exception as error:
            return _Cell(
                f"can't be read ({_brief(error)}): {_quoted(value)}", read[1], value,
                lost=column.needed and read[1] is None,
            )  # fmt: skip
        return None if kind == "text" else _Cell("is bytes, no text", text, value)
    if kind == "text" and _is_utf8(value):
        return None
    return _Cell(f"is not UTF-8 text: {_quoted(value)}", text, value)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.isdecimal())


def _as_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes) else str(value).encode()


def _quoted(value: object) -> str:
    return quote(value[:60] if isinstance(value, bytes) else value)


def _brief(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:100]


def _named(key: Key) -> str:
    values = (value.decode(errors="replace") if isinstance(value, bytes) else value
              for _, _, value in key)  # fmt: skip
    return " ".join(str(value)[:80] for value in values)


def _here(key: Key) -> tuple[str, list[object]]:
    """A condition that holds for the row alone."""
    conditions = [
        f'"{name}" = CAST(? AS TEXT)' if kind == "text" else f'"{name}" = ?'
        for name, kind, _ in key
    ]
    return " AND ".join(conditions), [value for _, _, value in key]


def _set_aside(tx: SqliteTransaction, table: str, key: Key) -> list[Damage]:
    """See to one row, if it still is as it was found."""
    columns = _columns(tx, table)
    where, values = _here(key)
    rows = list(_raw(tx, table, columns, where, *values))
    if not rows:
        return []
    _, cells = _looked_at(table, columns, rows[0])
    if not cells:
        return []
    called = tx.named(table)
    for name, cell in cells.items():
        tx.sql(
            'INSERT INTO stayer_damaged (at, "table", "row", "column", problem, value) '
            "VALUES (?, ?, ?, ?, ?, ?)",
            tx.now, called, _named(key), name, cell.problem, cell.value,
        )  # fmt: skip
    _write(tx, table, where, values, cells)
    if table == "stayer_tasks":
        names = (column.name for column in columns)
        _end(tx, dict(zip(names, rows[0][1::2], strict=True)), cells)
    return [Damage(called, _named(key), name, cell.problem) for name, cell in cells.items()]


def _write(
    tx: SqliteTransaction, table: str, where: str, values: list[object], cells: dict[str, _Cell]
) -> None:
    if any(cell.lost for cell in cells.values()):
        tx.sql(f"DELETE FROM {table} WHERE {where}", *values)
        return
    sets = ", ".join(f'"{name}" = ?' for name in cells)
    mended = [cell.mended for cell in cells.values()]
    try:
        tx.sql(f"UPDATE {table} SET {sets} WHERE {where}", *mended, *values)
    except sqlite3.IntegrityError:  # another has that name, or the table will not have it
        if table != "stayer_tasks":
            tx.sql(f"DELETE FROM {table} WHERE {where}", *values)
            return
        again = [f"{cell.mended}.{values[0]}" if name == "id" else cell.mended
                 for name, cell in cells.items()]  # fmt: skip
        tx.sql(f"UPDATE {table} SET {sets} WHERE {where}", *again, *values)


def _end(tx: SqliteTransaction, row: dict[str, Any], cells: dict[str, _Cell]) -> None:
    """A task that waits and is damaged has failed by that."""
    state = _text(row["state"])
    if state not in QUEUED:
        return
    said = "; ".join(f"{name} {cell.problem}" for name, cell in cells.items())
    fault = Fault("Damaged", f"its row can't be read: {said}. Fix it and submit it again")
    seq, queue = row["seq"], _text(row["queue"])
    error = msgspec.json.encode(fault).decode()
    tx.sql(
        "UPDATE stayer_tasks SET state = 'failed', ending = 'error', error = ?, finished_at = ?, "
        "updated = ? WHERE seq = ?",
        error, tx.now, tx.now, seq,
    )  # fmt: skip
    ledger = Ledger(tx)
    [(id,)] = tx.sql("SELECT id FROM stayer_tasks WHERE seq = ?", seq)
    ledger.event(seq, id, queue, "failed", 0, None, "error: its row can't be read")
    ledger.ended_for_others(id, "failed")
    ledger.note_move(queue, state, "failed")
    ledger.write()


def _text(value: object) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
