"""New tasks on their way into the tables: neighbours that were asked for alike go together.

Those who submit many at once, or at the same time, mostly ask for the same with other parameters;
so a crowd costs one statement, and what its rows have in common is worked out once.
"""

from __future__ import annotations

from typing import Any

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import NewTask, Task
from stayer.core.submit.fresh import fresh_task
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import Born, born, cells_in_common, json_cell, likeness
from stayer.stores.sql.transaction import Transaction


class _Group:
    """Tasks that differ in nothing but id and parameters."""

    def __init__(self, new: NewTask, born: Born) -> None:
        self.new = new
        self.born = born
        self.ids: list[str] = []
        self.forms: list[str | None] = []
        self.bytes: bytes | None = None
        """Parameters that are no text: then there is but one task."""


class Births:
    """The new tasks of one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._groups: list[_Group] = []
        self._likeness: tuple[Any, ...] | None = None

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        """One more; answers the task as it will be there."""
        if "\0" in new.id or "\0" in new.queue:
            raise BadInput(
                f"id {new.id!r} or queue {new.queue!r} has a NUL character: leave it out"
            )
        form = codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
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
        return fresh_task(new, *group.born)

    def write(self) -> bool:
        """Enter them all; False if an id was there already."""
        ledger = Ledger(self._tx)
        for group in self._groups:
            count, state, queue = len(group.ids), group.born.state, group.new.queue
            first = ledger.numbers(count)
            entered = self._tx.run(
                "submit",
                json_cell(list(zip(group.ids, group.forms, strict=True))),
                first,
                group.bytes,
                *cells_in_common(group.new, group.born),
            )
            if entered < count:
                return False
            ledger.told(first, group.ids, queue, state)
            ledger.moved(queue, None, state, count)
            # A new eta may be the next one due: those who sleep until then should look again.
            ledger.woken(queue)
        ledger.write()
        return True
