"""`Store.find`: tasks by filter, newest first, at a cost that does not grow with what is skipped.

Without queue, state or time the newest tasks are the end of the table. With any of them, the
answer is merged from the index of each (queue, state) that has tasks at all. What is left of the
filter (name, owner, tags …) has no index: it is checked task by task, by the database. Conditions
on JSON are so too, but for values that it can't look into, since they are compressed; so tasks that
it finds by them are looked at here once more (`core.json_match` decides).
"""

from __future__ import annotations

import heapq
from itertools import islice

from stayer.core import json_match
from stayer.core.errors import BadInput
from stayer.core.filters import EQUAL
from stayer.core.json_match import matches
from stayer.core.model import RUNNING, STATES, Filter, Page, Task
from stayer.core.search import words
from stayer.stores.sql.rows import by_seq
from stayer.stores.sql.transaction import Cell, Composed, Row, Transaction

_LAST = "\U0010ffff"


class _Conditions:
    """Names of conditions (see statements.sql) and their parameters."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.parameters: list[Cell] = []

    def add(self, name: str, *parameters: Cell) -> None:
        self.names.append(f"find.{name}")
        self.parameters.extend(parameters)


def find(tx: Transaction, filter: Filter, cursor: str | None, limit: int) -> Page:
    """One page, and where the next one begins."""
    if not (filter.meta or filter.where):
        found = _find(tx, filter, cursor, limit + 1)
        tasks = by_seq(tx, [seq for _, seq in found[:limit]])
        return Page(tuple(tasks), _cursor(found[limit - 1]) if len(found) > limit else None)
    kept: list[tuple[Row, Task]] = []
    while True:
        found = _find(tx, filter, cursor, limit + 1)
        tasks = by_seq(tx, [seq for _, seq in found])
        both = zip(found, tasks, strict=True)
        kept += [(row, task) for row, task in both if matches(filter, task)]
        if len(found) <= limit or len(kept) > limit:
            following = _cursor(kept[limit - 1][0]) if len(kept) > limit else None
            return Page(tuple(task for _, task in kept[:limit]), following)
        cursor = _cursor(found[-1])


def _find(tx: Transaction, filter: Filter, cursor: str | None, limit: int) -> list[Row]:
    """The first tasks behind the cursor, as when they were created and their numbers."""
    merged = bool(filter.queues or filter.states or filter.since or filter.until)
    direct = (
        filter.ids
        or filter.prefix
        or filter.worker
        or filter.flow
        or filter.unique
        or filter.fingerprint
        or not merged
    )
    conditions = _conditions(tx, filter)
    choose = _newest if direct else _merged
    return choose(tx, filter, conditions, cursor, limit)


def _conditions(tx: Transaction, filter: Filter) -> _Conditions:
    conditions = _Conditions()
    if filter.ids:
        conditions.add("ids", tx.array(filter.ids))
    if filter.prefix:
        conditions.add("prefix", filter.prefix, filter.prefix + _LAST)
    for name in EQUAL:
        if (value := getattr(filter, name)) is not None:
            conditions.add(name, value)
    if filter.name is not None:
        conditions.add("name", filter.name, filter.name)
    if filter.held is not None:
        conditions.add("held", filter.held)
    if filter.has_files:
        conditions.add("has_files")
    for tag in filter.tags:
        conditions.add("tag", tag)
    for word in words(filter.search or ""):
        plain, in_json = word.plain, word.in_json
        conditions.add("search", plain, plain, *[in_json] * 4, plain, plain)
    for name in ("meta", "where"):
        for written in getattr(filter, name):
            condition = json_match.parse(name, written)
            path = tx.dialect.json_path(condition.path)
            conditions.add(name, path, condition.text, condition.number)
    if filter.since is not None:
        conditions.add("since", filter.since)
    if filter.until is not None:
        conditions.add("until", filter.until)
    return conditions


def _newest(
    tx: Transaction, filter: Filter, conditions: _Conditions, cursor: str | None, limit: int
) -> list[Row]:
    if filter.queues:
        conditions.add("queues_named", tx.array(filter.queues))
    if filter.states:
        conditions.add("states_named", tx.array(filter.states))
    if cursor is not None:
        conditions.add("below", _parse(cursor)[1])
    statement = Composed("find.newest", tuple(conditions.names))
    return tx.all(statement, *conditions.parameters, limit)


def _merged(
    tx: Transaction, filter: Filter, conditions: _Conditions, cursor: str | None, limit: int
) -> list[Row]:
    if cursor is not None:
        conditions.add("before", *_parse(cursor))
    heads = []
    for name, *counts in tx.all("find.queues", not filter.queues, tx.array(filter.queues)):
        for state, number in zip(STATES, counts, strict=True):
            if number and (not filter.states or state in filter.states):
                index = "find.is_running" if state in RUNNING else "find.is_not_running"
                statement = Composed(
                    "find.of_state", ("find.is_queue", "find.is_state", index, *conditions.names)
                )
                heads.append(tx.all(statement, name, state, *conditions.parameters, limit))
    return list(islice(heapq.merge(*heads, reverse=True), limit))


def _cursor(row: Row) -> str:
    created, seq = row
    return f"{created!r}~{seq}"


def _parse(cursor: str) -> tuple[float, int]:
    try:
        created, seq = cursor.split("~")
        return float(created), int(seq)
    except ValueError:
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page") from None
