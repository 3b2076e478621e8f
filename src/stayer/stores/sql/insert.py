"""New tasks on their way into the tables."""

from __future__ import annotations

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import NewTask, Task
from stayer.core.submit.fresh import fresh_task
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import Born, born, cells_in_common, value_cell
from stayer.stores.sql.transaction import Cell, Transaction


class Births:
    """The new tasks of one transaction, one row each."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._tasks: list[tuple[NewTask, Born, Cell]] = []

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        """One more; answers the task as it will be there."""
        form = value_cell(checked_parameters(new), self._tx.dialect.bytes_as_text)
        this = born(new, self._tx.now, waits=waits, dependents=dependents)
        self._tasks.append((new, this, form))
        return fresh_task(new, *this)

    def write(self) -> bool:
        """Enter them all; False if an id was there already."""
        ledger = Ledger(self._tx)
        for new, this, form in self._tasks:
            number = ledger.numbers()
            cells = cells_in_common(new, this)
            if not self._tx.run("submit", new.id, form, number, *cells):
                return False
            note_births(ledger, number, [new.id], new.queue, this)
        ledger.write()
        return True


def checked_parameters(new: NewTask) -> str | bytes | None:
    """What its parameters are as a column; raises BadInput for a name that no column can hold."""
    if "\0" in new.id or "\0" in new.queue:
        raise BadInput(f"id {new.id!r} or queue {new.queue!r} has a NUL character: leave it out")
    return codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)


def note_births(ledger: Ledger, first: int, ids: list[str], queue: str, born: Born) -> None:
    """Enter what new tasks of one kind leave behind, the first under that number."""
    ledger.told(first, ids, queue, born.state)
    ledger.moved(queue, None, born.state, len(ids))
    # A new eta may be the next one due: those who sleep until then should look again.
    ledger.woken(queue)
