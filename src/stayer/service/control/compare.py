"""Comparing tasks of a store: those that are named, with the tasks of flows and sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from stayer.core import codec
from stayer.core.errors import BadInput, UnknownFlow, UnknownTask
from stayer.core.insight import comparison
from stayer.core.insight.comparison import MOST_TASKS, Comparison
from stayer.core.limits import COMPARED
from stayer.core.model import Filter, Task
from stayer.service.control import flows
from stayer.service.control import tasks as control
from stayer.service.control.statistics import find_statistics
from stayer.store import ReadStore, Store

_BATCH = 50
"""How many tasks are read at a time."""


def compare(store: Store, tasks: Iterable[Task], *, all: bool = False) -> Comparison:
    """Compare these tasks; without `all`, only in what differs. BadInput if they are too many."""
    found: dict[str, Task] = {}
    for task in up_to_limit(tasks):
        found[task.id] = task
        if len(found) > MOST_TASKS:
            raise BadInput(
                f"there are over {MOST_TASKS} tasks: name fewer, or use a narrower filter"
            )
    if not found:
        raise BadInput("there is no task to compare: name some, or use another filter")
    own = {id: find_statistics(store, task)[1] for id, task in found.items() if task.attempt}
    made = comparison.compare(list(found.values()), own, store.now())
    return made if all or len(found) == 1 else made.differing()


def tasks_meant(store: Store, ids: Iterable[str]) -> Iterator[Task]:
    """Yield the tasks with these ids, and those of the flows and sweeps; the beginning of an id is
    enough. Raises UnknownTask.
    """
    for id in ids:
        try:
            yield control.get(store, control.resolve(store, id))
        except UnknownTask:
            try:
                flow = flows.resolve(store, id)
            except UnknownFlow:
                flow = None
            if flow is None:
                raise
            # Its lists begin with the newest, a comparison with the first of a sweep.
            of_flow = up_to_limit(find_to_compare(store, Filter(flow=flow)))
            yield from reversed([*islice(of_flow, MOST_TASKS + 1)])


def find_to_compare(store: ReadStore, filter: Filter) -> Iterator[Task]:
    """Find every task that matches, few at a time: all that they bring along is in memory."""
    return control.find_all(store, filter, _BATCH)


def up_to_limit(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield these tasks; BadInput once they bring along more than can be compared."""
    size = 0
    for task in tasks:
        size += codec.size(task.parameters) + codec.size(task.result)
        if size > COMPARED:
            raise BadInput(
                f"the parameters and results of these tasks are over {COMPARED:,} bytes, more "
                "can't be compared: name fewer tasks, or let them store the data elsewhere and "
                "return where it is"
            )
        yield task
