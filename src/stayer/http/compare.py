"""Tasks side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from stayer.core.errors import BadInput
from stayer.core.insight import comparison
from stayer.core.model import Filter, Task
from stayer.http.filters import TaskFilter, to_filter
from stayer.http.route import Answer, Call
from stayer.service.control import compare as control


class CompareTasks(TaskFilter, frozen=True, kw_only=True):
    """Which tasks, and which rows. `id` may also be the id of a flow or sweep."""

    all: Annotated[bool, Meta(description="Also rows in which all tasks are the same.")] = False


def compare(call: Call) -> Answer:
    """Answer with the rows of a table that has a column for each task."""
    query: CompareTasks = call.query
    filter = to_filter(call.store, query)
    if filter == Filter():
        raise BadInput("say which tasks: id=…, repeated, or another parameter of the list")
    if filter == Filter(ids=filter.ids):
        found: Iterable[Task] = control.tasks_meant(call.store, filter.ids)
    else:
        found = control.find_to_compare(call.store, filter)
    return Answer(comparison.record(control.compare(call.store, found, all=query.all)))
