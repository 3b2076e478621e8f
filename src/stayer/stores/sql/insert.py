"""New tasks on their way into the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import NewTask, Task
from stayer.core.submit.fresh import fresh_task
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.rows import Beginning, beginning_of, cells_in_common, likeness
from stayer.stores.sql.transaction import Cell, Transaction


class Births:
    """The new tasks of one transaction, one row each."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._tasks: list[tuple[NewTask, Beginning, Cell]] = []

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        """One more; answers the task as it will be there."""
        form = self._tx.dialect.value_cell(checked_parameters(new))
        this = beginning_of(new, self._tx.now, waits=waits, dependents=dependents)
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
            add_first_events(ledger, number, [new.id], new.queue, this)
        ledger.write()
        return True


class _Group:
    """Tasks that differ in nothing but id and parameters."""

    def __init__(self, new: NewTask, beginning: Beginning) -> None:
        self.new = new
        self.beginning = beginning
        self.ids: list[str] = []
        self.forms: list[Cell] = []


class BirthsInGroups(Births):
    """Those who submit many at once, or at the same time, mostly ask for the same with other
    parameters: so a crowd costs one statement, and what its rows have in common is worked out once.
    """

    largest: float = math.inf
    """How many come together at most."""
    takes_bytes = True
    """Whether parameters that are no text can come with others. Else such a task comes alone."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._groups: list[_Group] = []
        self._likeness: tuple[Any, ...] | None = None

    def add(self, new: NewTask, waits: bool, dependents: bool) -> Task:
        form = self._tx.dialect.value_cell(checked_parameters(new))
        mine = (waits, dependents, likeness(new))
        is_alone = not self.takes_bytes and isinstance(form, bytes)
        if is_alone or mine != self._likeness or len(self._groups[-1].ids) >= self.largest:
            this = beginning_of(new, self._tx.now, waits=waits, dependents=dependents)
            self._groups.append(_Group(new, this))
            self._likeness = None if is_alone else mine
        group = self._groups[-1]
        group.ids.append(new.id)
        group.forms.append(form)
        return fresh_task(new, *group.beginning)

    def write(self) -> bool:
        ledger = Ledger(self._tx)
        for group in self._groups:
            first = ledger.numbers(len(group.ids))
            common = cells_in_common(group.new, group.beginning)
            if not self.enter(group.ids, group.forms, first, common):
                return False
            add_first_events(ledger, first, group.ids, group.new.queue, group.beginning)
        ledger.write()
        return True

    def enter(
        self, ids: Sequence[str], forms: Sequence[Cell], first: int, common: Sequence[Cell]
    ) -> bool:
        """Insert tasks with these ids and parameters, the first under that number of an event, and
        with what they have in common; False if an id is known to be there already.
        """
        raise NotImplementedError


def checked_parameters(new: NewTask) -> str | bytes | None:
    """What its parameters are as a column; raises BadInput for a name that no column can hold."""
    if "\0" in new.id or "\0" in new.queue:
        raise BadInput(f"id {new.id!r} or queue {new.queue!r} has a NUL character: leave it out")
    return codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)


def add_first_events(
    ledger: Ledger, first: int, ids: list[str], queue: str, beginning: Beginning
) -> None:
    """Enter what new tasks of one kind leave behind, the first under that number."""
    ledger.add_events(first, ids, queue, beginning.state)
    ledger.note_move(queue, None, beginning.state, len(ids))
    # A new eta may be the next one due: those who sleep until then should look again.
    ledger.note_wake_up(queue)
