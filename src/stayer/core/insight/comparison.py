"""Tasks side by side: what they were given, how long they took, what they reported, what came out.
Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.fault_text import fault_line
from stayer.core.insight.statistics import step_elapsed
from stayer.core.model import FINISHED, JSON, Statistics, Task, Value

MOST_TASKS, MOST_ROWS = 100, 10_000
"""So many tasks can be compared at once, in so many values of each."""


class Row(Struct, frozen=True):
    """One thing to compare, with its value for each task; None: that one has none."""

    name: str
    """`state`, `ran`, `parameters.lr`, `metrics.loss.last`, `steps.load`, `result.accuracy` …"""
    values: tuple[JSON, ...]

    @property
    def differs(self) -> bool:
        """Whether the tasks have different values."""
        return len({codec.encode(value) for value in self.values}) > 1


class Comparison(Struct, frozen=True):
    """Tasks, and the rows of a table that has a column for each of them."""

    ids: tuple[str, ...]
    rows: tuple[Row, ...]

    def differing(self) -> Comparison:
        """Return it without the rows in which all tasks are the same."""
        return Comparison(self.ids, tuple(row for row in self.rows if row.differs))


def compare(tasks: Sequence[Task], statistics: Mapping[str, Statistics], now: float) -> Comparison:
    """Compare tasks, with what they have reported of themselves, by id. BadInput if they have more
    names than a table can show.
    """
    columns = [dict(_values(task, statistics.get(task.id) or Statistics(), now)) for task in tasks]
    named = {name: None for column in columns for name in column}
    if len(named) > MOST_ROWS:
        raise BadInput(
            f"these tasks have {len(named):,} different parameters and figures, at most "
            f"{MOST_ROWS:,} can be compared: name fewer tasks"
        )
    names = sorted(named, key=_place)
    rows = (Row(name, tuple(column.get(name) for column in columns)) for name in names)
    return Comparison(tuple(task.id for task in tasks), tuple(rows))


_ORDER = ("queue", "name", "command", "state", "ending", "error", "attempt", "node", "owner")
_GROUPS = ("parameters", "meta", "waited", "ran", "cpu", "memory", "steps", "metrics", "result")


def _place(name: str) -> tuple[int, int]:
    """Groups in their order; within one, names stay in the order in which they came."""
    group = name.partition(".")[0]
    if group in _ORDER:
        return 0, _ORDER.index(group)
    return 1, _GROUPS.index(group)


def _values(task: Task, own: Statistics, now: float) -> Iterator[tuple[str, JSON]]:
    for name in ("queue", "name", "state", "ending", "attempt", "node", "owner"):
        yield name, getattr(task, name)
    yield "command", None if task.command is None else shlex.join(task.command)
    yield "error", None if task.error is None else fault_line(task.error)
    yield from _parts("parameters", task.parameters)
    yield from _parts("meta", dict(task.meta) if task.meta else None)
    ran = _ran(task, now)
    if task.started_at is not None:
        yield "waited", round(max(0.0, task.started_at - task.created), 3)
        yield "ran", None if ran is None else round(ran, 3)
    if task.usage is not None:
        yield "cpu", task.usage.cpu
        yield "memory", task.usage.peak
    for step in own.steps:
        yield f"steps.{step.name}", round(step_elapsed(step, ran), 3)
    for name, metric in (task.metrics or {}).items():
        for word in ("last", "min", "max"):
            yield f"metrics.{name}.{word}", getattr(metric, word)
    yield from _parts("result", task.result)


def _ran(task: Task, now: float) -> float | None:
    if task.started_at is None:
        return None
    end = task.finished_at if task.state in FINISHED else now
    return None if end is None else max(0.0, end - task.started_at)


def _parts(name: str, value: Value) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict):
        for part, inner in value.items():
            yield f"{name}.{part}", inner
    elif value is not None:
        yield name, codec.shown_value(value)


def record(comparison: Comparison) -> dict[str, JSON]:
    """Return it as JSON shows it: `values` are in the order of `ids`."""
    rows: list[JSON] = [
        {"name": row.name, "values": list(row.values), "differs": row.differs}
        for row in comparison.rows
    ]
    return {"ids": list(comparison.ids), "rows": rows}
