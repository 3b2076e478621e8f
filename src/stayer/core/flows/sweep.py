"""Sweeps: one task for each combination of parameters, and the table that compares them. Pure.

A sweep is a flow with one map, called `sweep`, so everything that works on flows works on sweeps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec, limits
from stayer.core.errors import BadInput
from stayer.core.fault_text import fault_line
from stayer.core.flows.model import SWEEP_PART, FlowInfo, NewFlow, check_tasks, part_of
from stayer.core.flows.plan import Extent, PartPlan, lay_out
from stayer.core.limits import quote
from stayer.core.model import FINISHED, JSON, NewTask, State, Task, Value
from stayer.core.units import rfc3339

PART = SWEEP_PART
"""What the map of a sweep is called: tasks are `SWEEP.sweep.0`, `SWEEP.sweep.1` …"""
NOT_FOR_SWEEPS = ("id", "unique", "near", "near_wait")
"""What the tasks of a sweep can't all have."""
_COUNTED = 10**18
"""From so many combinations on, it does not matter how many there are."""
MOST_COLUMNS = 200
"""So many parameters, figures and metrics a table has at most: who submits chooses their names."""
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
_PLACE = re.compile(r"\{(\w+)\}")


def parse_values(written: str, what: str) -> list[JSON]:
    """Read the values of a parameter: `0.1,0.01`, `1..5` (both included), `0..100..10` (in steps of
    10), or a JSON array. What is no JSON is text. Raises BadInput.
    """
    if written.startswith("["):
        return _checked(codec.parse(written, what), what)
    values: list[JSON] = []
    for item in _items(written):
        if found := _RANGE.fullmatch(item):
            values += _range(found[1], found[2], found[3], what)
        else:
            values.append(codec.json_or_text(item))
    return _checked(values, what)


def _items(written: str) -> list[str]:
    """Split at commas, but not at those in quotes."""
    return [item.strip() for item in re.findall(r'"(?:[^"\\]|\\.)*"|[^,]+', written)]


def _range(first: str, last: str, step: str | None, what: str) -> Iterable[int]:
    begin, end = int(first), int(last)
    by = int(step) if step else (1 if begin <= end else -1)
    if by == 0 or (end - begin) * by < 0:
        raise BadInput(f"{what}: {first}..{last} in steps of {by} leads nowhere")
    check_tasks(PART, abs(end - begin) // abs(by) + 1)
    return range(begin, end + (1 if by > 0 else -1), by)


def _checked(values: object, what: str) -> list[JSON]:
    if not isinstance(values, list) or not values:
        raise BadInput(f"{what}: give at least one value, such as 0.1,0.01 or 1..5")
    return values


def plan_sweep(
    grid: Mapping[str, Sequence[JSON]],
    pattern: NewTask,
    *,
    id: str | None = None,
    name: str | None = None,
    throttle: int | None = None,
) -> tuple[NewFlow, list[NewTask]]:
    """Lay out a task for each combination of the values, the last parameter changing fastest. In
    the command of the pattern `{name}` stands for a value; its parameters are extended by them.
    At most `throttle` run at once. Raises BadInput.
    """
    for key, values in grid.items():
        if not isinstance(key, str) or not key:
            raise BadInput(f"parameter {quote(key)}: give it a name")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise BadInput(f"parameter {key}: give a list of at least one value")
    if not grid:
        raise BadInput("a sweep needs at least one parameter with its values, such as lr=0.1,0.01")
    _check_extent(grid, pattern)
    if not isinstance(pattern.parameters, dict | None):
        raise BadInput(
            "the parameters of a sweep are an object, to which those that vary are added"
        )
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    plan = PartPlan(
        name=PART,
        tasks=tuple(_task(pattern, point) for point in points),
        is_map=True,
        at_once=throttle,
        after_tasks=pattern.after,
        template=pattern.command,
    )
    title = name or pattern.name or (" ".join(pattern.command) if pattern.command else PART)
    return lay_out(title[: limits.WORD], [plan], id=id, owner=pattern.owner)


def _check_extent(grid: Mapping[str, Sequence[JSON]], pattern: NewTask) -> None:
    """TooLarge if the combinations come to too much, counted before any of them is made."""
    extent = Extent(PART)
    number = 1
    for values in grid.values():
        number *= len(values)
        if number > _COUNTED:  # it could have any number of digits
            break
    extent.add(tasks=number)
    command = pattern.command or ()
    places = Counter(name for word in command for name in _PLACE.findall(word))
    extent.add(size=number * (codec.size(pattern.parameters) + sum(map(len, command))))
    for name, values in grid.items():
        one_of_each = sum(map(codec.size, values)) * (1 + places[name]) + len(name) * len(values)
        extent.add(size=number // len(values) * one_of_each)


def list_unused(grid: Iterable[str], command: Sequence[str] | None) -> list[str]:
    """List the parameters that a command does not name."""
    if command is None:
        return []
    named = {name for word in command for name in _PLACE.findall(word)}
    return [name for name in grid if name not in named]


def _task(pattern: NewTask, point: Mapping[str, JSON]) -> NewTask:
    known = pattern.parameters if isinstance(pattern.parameters, dict) else {}
    command = None if pattern.command is None else fill_command(pattern.command, point)
    return replace(pattern, command=command, parameters={**known, **point})


def fill_command(command: Sequence[str], point: Mapping[str, JSON]) -> tuple[str, ...]:
    """Make the command of one combination: `{name}` becomes its value. Other braces stay, for many
    programs have a use for them.
    """

    def text(found: re.Match[str]) -> str:
        if found[1] not in point:
            return found[0]
        value = point[found[1]]
        return value if isinstance(value, str) else codec.encode(value)

    return tuple(_PLACE.sub(text, word) for word in command)


class Run(Struct, frozen=True, kw_only=True):
    """A row of the table: one task of a sweep."""

    id: str
    place: int
    parameters: dict[str, JSON]
    state: State
    result: Value = None
    error: str | None = None
    attempt: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    duration: float | None = None
    """Of the last attempt, in seconds; None until it has ended."""
    metrics: dict[str, float | None] = {}
    """The last value of each."""


def compare(tasks: Iterable[Task]) -> list[Run]:
    """Make the rows of the table, in the order of the combinations."""
    return sorted((_run(task) for task in tasks), key=lambda run: run.place)


def _run(task: Task) -> Run:
    ended = task.state in FINISHED and task.started_at is not None and task.finished_at is not None
    return Run(
        id=task.id,
        place=part_of(task.flow, task.id)[1] or 0,
        parameters=task.parameters if isinstance(task.parameters, dict) else {},
        state=task.state,
        result=task.result,
        error=None if task.error is None else fault_line(task.error),
        attempt=task.attempt,
        started_at=task.started_at,
        finished_at=task.finished_at,
        duration=(task.finished_at or 0.0) - (task.started_at or 0.0) if ended else None,
        metrics={name: metric.last for name, metric in (task.metrics or {}).items()},
    )


def varying(runs: Sequence[Run]) -> list[str]:
    """List the parameters in which the runs differ, in their order; all if they differ in none."""
    first: dict[str, str] = {}
    number: Counter[str] = Counter()
    several: set[str] = set()
    for run in runs:  # once: their names may be as many as their values
        number.update(run.parameters.keys())
        for name, value in run.parameters.items():
            written = codec.encode(value)
            if first.setdefault(name, written) != written:
                several.add(name)
    nothing = codec.encode(None)
    differing = [
        name
        for name, written in first.items()
        if name in several or (number[name] < len(runs) and written != nothing)
    ]
    return (differing or list(first))[:MOST_COLUMNS]


def figures(runs: Sequence[Run]) -> list[str]:
    """List the plain values in results that are objects: what the table has columns for."""
    is_plain: dict[str, bool] = {}
    for run in runs:
        for name, value in run.result.items() if isinstance(run.result, dict) else ():
            is_plain[name] = is_plain.get(name, True) and not isinstance(value, dict | list)
    return [name for name, plain in is_plain.items() if plain][:MOST_COLUMNS]


def metrics(runs: Sequence[Run]) -> list[str]:
    """List the metrics that the table has columns for: those that no result has a figure of."""
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    known = {*varying(runs), *figures(runs)}
    return [name for name in names if name not in known][:MOST_COLUMNS]


def is_sweep(flow: FlowInfo) -> bool:
    """Tell whether this flow was submitted as a sweep."""
    return len(flow.parts) == 1 and flow.parts[0].name == PART and flow.parts[0].is_map


def run_record(run: Run) -> dict[str, JSON]:
    """Return the row as JSON shows it."""
    return {
        "id": run.id,
        "place": run.place,
        "parameters": run.parameters,
        "state": run.state,
        "result": codec.shown_value(run.result),
        "error": run.error,
        "attempt": run.attempt,
        "started_at": None if run.started_at is None else rfc3339(run.started_at),
        "finished_at": None if run.finished_at is None else rfc3339(run.finished_at),
        "duration": run.duration,
        "metrics": dict[str, JSON](run.metrics),
    }
