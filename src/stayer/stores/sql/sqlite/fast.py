"""What makes SQLite fast where much is done at once. It leaves the same behind as the plain way
(`bulk.py`), which is the one to read first.

- Neighbours that were asked for alike come into the table by one statement.
- What stands one behind the other in the table is changed as a stretch, not row by row.
- Numbers and the usual columns are read as one JSON array: Python lets go of its lock at every row
  that it reads, and gets it back when others have had enough of it.
- Tasks that ran to their end are completed in groups (`bulk_complete.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stayer.core import codec
from stayer.core.model import Change, NewTask, Policy, Task
from stayer.stores.sql import history
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.insert import Births, checked_parameters, note_births
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import (
    TASK_COLUMNS,
    Born,
    born,
    by_seq,
    cells_in_common,
    json_cell,
    likeness,
    task_from_new,
)
from stayer.stores.sql.sqlite.bulk_complete import complete, groups
from stayer.stores.sql.transaction import Cell, Transaction

_USUAL = ("id", "name", "parameters", "attempt", "priority", "owner", "created", "last_order")
_KNOWN = (
    "queue", "state", "held", "ending", "node", "worker", "pid", "updated", "started_at",
    "finished_at", "returned_from", "paused", "usage", "seq", "unique_while", "fingerprint",
)  # fmt: skip
"""What a task that was just reserved has for certain (see the statement `reserve`), or only if it
has something else that is unusual."""
_COUNTS = ("failures", "interruptions", "losses", "upstreams", "dependents")
_LONG = 8192
_SHORT = f"typeof(parameters) = 'text' AND length(parameters) < {_LONG}"
_FIRST_CREATED = "(SELECT first.created FROM stayer_tasks AS first WHERE first.seq = ?2)"
_AS_JSON = {
    "parameters": f"iif({_SHORT}, parameters, NULL)",
    # SQLite itself would round it, and those that came together have it in common.
    "created": f"iif(created = {_FIRST_CREATED}, NULL, format('%!.17g', created))",
    # What others wrote here may be bytes, of which JSON knows nothing.
    **{column: f"CAST({column} AS TEXT)" for column in ("id", "name", "owner")},
}
_UNUSUAL = (
    f"nullif({' | '.join(_COUNTS)}, 0)",
    "nullif(unique_for, 0)",
    f"iif({_SHORT}, NULL, parameters)",
    *(
        column
        for column in TASK_COLUMNS.split(", ")
        if column not in {*_USUAL, *_KNOWN, *_COUNTS, "unique_for"}
    ),
)
"""What few tasks have; all null where one has nothing of it."""
COLUMNS = {
    "reserved": ", ".join(("seq", *(_AS_JSON.get(column, column) for column in _USUAL))),
    "unusual": ", ".join(_UNUSUAL),
    "first_created": _FIRST_CREATED,
}
"""What stands for columns in fast.sql."""

_seqs = msgspec.json.Decoder(list[int])
_rows = msgspec.json.Decoder(
    list[tuple[int, str, str | None, str | None, int, int, str | None, str | None, int, int]]
)
_DEFAULT_POLICY = Policy()


class FastBulk(Bulk):
    """Many tasks in few statements."""

    def births(self, tx: Transaction) -> Births:
        return _BirthsInGroups(tx)

    def seqs(self, tx: Transaction, statement: str, *parameters: Cell) -> list[int]:
        found = tx.one(statement.partition(" ")[0] + ".json", *parameters)
        return [] if found is None else _seqs.decode(found[0])

    def take(
        self, tx: Transaction, seqs: list[int], first: int, queue: str, worker: str, node: str
    ) -> list[Task]:
        before, behind = history.around_attempt(tx.now, worker, node)
        attempt = tx.now, worker, node, first, before, behind
        if seqs == list(range(seqs[0], seqs[0] + len(seqs))):  # as those are that came together
            tx.run("fast.reserve_stretch", *attempt, seqs[0], seqs[-1])
        else:
            tx.run("fast.reserve", *attempt, tx.array(seqs))
        return _just_reserved(tx, seqs, queue, worker, node)

    def complete(
        self, tx: Transaction, changes: Sequence[Change], ledger: Ledger
    ) -> Iterator[tuple[Sequence[Change], frozenset[str]]]:
        for group in groups(changes):
            yield group, complete(tx, group, ledger) if len(group) > 1 else frozenset()


class _Group:
    """Tasks that differ in nothing but id and parameters."""

    def __init__(self, new: NewTask, born: Born) -> None:
        self.new = new
        self.born = born
        self.ids: list[str] = []
        self.forms: list[str | None] = []
        self.bytes: bytes | None = None
        """Parameters that are no text: then there is but one task."""


class _BirthsInGroups(Births):
    """Those who submit many at once, or at the same time, mostly ask for the same with other
    parameters; so a crowd costs one statement, and what its rows have in common is worked out once.
    """

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._groups: list[_Group] = []
        self._likeness: tuple[Any, ...] | None = None

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        form = checked_parameters(new)
        mine = (waits, dependents, likeness(new))
        is_text = not isinstance(form, bytes)
        if not is_text or mine != self._likeness:
            this = born(new, self._tx.now, waits=waits, dependents=dependents)
            self._groups.append(_Group(new, this))
            self._likeness = mine if is_text else None
        group = self._groups[-1]
        group.ids.append(new.id)
        if isinstance(form, bytes):
            group.bytes, form = form, None
        group.forms.append(form)
        return task_from_new(new, group.born)

    def write(self) -> bool:
        ledger = Ledger(self._tx)
        for group in self._groups:
            first = ledger.numbers(len(group.ids))
            entered = self._tx.run(
                "fast.submit",
                json_cell(list(zip(group.ids, group.forms, strict=True))),
                first,
                group.bytes,
                *cells_in_common(group.new, group.born),
            )
            if entered < len(group.ids):
                return False
            note_births(ledger, first, group.ids, group.new.queue, group.born)
        ledger.write()
        return True


def _just_reserved(
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
            None, _DEFAULT_POLICY, 0, (), last_order,
        )  # fmt: skip
    if len(tasks) < len(seqs):
        unusual = unusual or [seq for seq in seqs if seq not in tasks]
        tasks.update(zip(unusual, by_seq(tx, unusual), strict=True))
    return [tasks[seq] for seq in seqs]


def _read_reserved(tx: Transaction, seqs: Sequence[int]) -> tuple[Sequence[Any], Cell]:
    """Nothing if one of them is not what it seems: then they are read with more care. And when the
    first was made, which is null in the others that were made then.
    """
    row = tx.one("fast.reserve_read", tx.array(seqs), seqs[0])
    try:
        return ([], None) if row is None else (_rows.decode(row[0]), row[1])
    except (msgspec.DecodeError, UnicodeError):
        return [], None
