"""Reading back what was just reserved, by as few cells as most tasks need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stayer.core import codec
from stayer.core.decoding import json_decoder
from stayer.core.fields import STORED
from stayer.core.model import Policy, Task
from stayer.stores.sql.rows import by_seq, cell_kind, column, literal, never_null
from stayer.stores.sql.transaction import Cell, Transaction

_USUAL = ("id", "name", "parameters", "attempt", "priority", "owner", "created", "last_order")
_KNOWN = (
    "queue", "state", "held", "ending", "node", "worker", "pid", "updated", "started_at",
    "finished_at", "returned_from", "paused", "usage", "seq", "unique_while", "fingerprint",
)  # fmt: skip
"""What a task that was just reserved has for certain (see the statement `reserve`), or only if it
has something else that is unusual."""
_SHORT_PARAMETERS_LIMIT = 8192
_SHORT = f"typeof(parameters) = 'text' AND length(parameters) < {_SHORT_PARAMETERS_LIMIT}"
_FIRST_CREATED = "(SELECT first.created FROM stayer_tasks AS first WHERE first.seq = ?2)"
_AS_JSON = {
    "parameters": f"iif({_SHORT}, parameters, NULL)",
    # SQLite itself would round it, and those that came together have it in common.
    "created": f"iif(created = {_FIRST_CREATED}, NULL, format('%!.17g', created))",
    # What others wrote here may be bytes, of which JSON knows nothing.
    **{column: f"CAST({column} AS TEXT)" for column in ("id", "name", "owner")},
}
_RESERVED_COLUMNS = ", ".join(("seq", *(_AS_JSON.get(column, column) for column in _USUAL)))
"""The usual ones, as SQLite can put them into JSON."""


def _unusual() -> list[str]:
    """For each field an expression that is null where a task that was just reserved has it as most
    have it; numbers that are mostly 0 in one.
    """
    few = [field for field in STORED if field.name not in {*_USUAL, *_KNOWN}]
    counts = [
        field.name
        for field in few
        if never_null(field) and cell_kind(field) == "integer" and not field.default
    ]
    others = [field for field in few if field.name not in counts]
    return [
        f"nullif({' | '.join(counts)}, 0)",
        *(
            f"nullif({column(field.name)}, {literal(field.default)})"
            if never_null(field)
            else column(field.name)
            for field in others
        ),
    ]


_UNUSUAL = ", ".join((f"iif({_SHORT}, NULL, parameters)", *_unusual()))
"""What few tasks have; all null where one has nothing of it."""
COLUMNS = {"reserved": _RESERVED_COLUMNS, "unusual": _UNUSUAL, "first_created": _FIRST_CREATED}
"""What stands for columns in fast.sql."""

_seqs = json_decoder(list[int])
_rows = json_decoder(
    list[tuple[int, str, str | None, str | None, int, int, str | None, str | None, int, int]]
)
_DEFAULT_POLICY = Policy()


def just_reserved(
    tx: Transaction, seqs: Sequence[int], queue: str, worker: str, node: str
) -> list[Task]:
    """Read tasks of one queue that this worker took just now. Most have little more than a name and
    parameters, and reading all columns would be half the work of a reserve.
    """
    tasks: dict[int, Task] = {}
    unusual: list[int] = []
    rows, first_created = _read_reserved(tx, seqs)
    for seq, id, name, parameters, attempt, priority, owner, created, last_order, usual in rows:
        if not usual:
            unusual.append(seq)
            continue
        tasks[seq] = Task(
            id, queue, name, None, None, None,
            None if parameters is None else codec.unpack(parameters),
            "reserved", False, attempt, 0, 0, None, priority, owner, (), None, None, None, node,
            worker, None, first_created if created is None else float(created), tx.now, None, None,
            None, _DEFAULT_POLICY, 0, last_order,
        )  # fmt: skip
    if len(tasks) < len(seqs):
        unusual = unusual or [seq for seq in seqs if seq not in tasks]
        tasks.update(zip(unusual, by_seq(tx, unusual), strict=True))
    return [tasks[seq] for seq in seqs]


def _read_reserved(tx: Transaction, seqs: Sequence[int]) -> tuple[Sequence[Any], Cell]:
    """Nothing if one of them is not what it seems: then they are read with more care. And when the
    first was made, which is null in the others that were made then.
    """
    row = tx.one("reserve.read", tx.array(seqs), seqs[0])
    try:
        return ([], None) if row is None else (_rows.decode(row[0]), row[1])
    except (msgspec.DecodeError, UnicodeError):
        return [], None


def seqs_from_cell(cell: Cell) -> list[int]:
    """Read the numbers that a statement gives as one JSON array."""
    return _seqs.decode(cell)
