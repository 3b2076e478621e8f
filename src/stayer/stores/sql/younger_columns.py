"""The columns that tables of an older Stayer lack."""

from __future__ import annotations

from collections.abc import Callable, Container

from stayer.core.fields import STORED, Field

_ADDED_LATER = (("stayer_workers", "worker_order"), ("stayer_queues", "defaults"))
"""Those of other tables than that of the tasks."""


def missing_columns(
    columns: Callable[[str], Container[str]], declare: Callable[[Field], str], text: str
) -> list[str]:
    """What ALTER TABLE has to add, given the columns of each table, how the one of a field is
    declared, and the type for a text. It is added without another version of the tables: an older
    Stayer names the columns that it knows, and need not know of more.
    """
    there = columns("stayer_tasks")
    declared = [declare(field) for field in STORED if field.name not in there]
    missing = [f"stayer_tasks ADD COLUMN {each}" for each in declared]
    missing += [
        f"{table} ADD COLUMN {name} {text}"
        for table, name in _ADDED_LATER
        if name not in columns(table)
    ]
    return missing
