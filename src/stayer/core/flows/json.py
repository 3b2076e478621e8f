"""A flow as it is written in JSON: `docs/reference/flow-json.md`. Errors name the place."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec, limits, units
from stayer.core.decoding import decode_json, json_decoder
from stayer.core.errors import BadInput, TooLarge
from stayer.core.flows.model import NewFlow
from stayer.core.flows.plan import Extent, PartPlan, check_name, fill_command, lay_out
from stayer.core.model import NewTask, Value
from stayer.core.submit import checks, decode_errors
from stayer.core.submit.json import parse_submission


class _FlowFile(Struct, forbid_unknown_fields=True):
    """The whole file."""

    name: str
    tasks: dict[str, dict[str, msgspec.Raw]]
    id: str | None = None
    owner: str | None = None
    defaults: dict[str, msgspec.Raw] = {}


class _Ties(Struct):
    """What a task of the file says of others."""

    after: list[str] = []
    after_tasks: list[str] = []
    map: list[Any] | str | None = None
    at_once: int | None = None
    near: str | None = None
    near_wait: float | str | None = None


_FIELDS = tuple(_FlowFile.__struct_fields__)
_TIES = tuple(_Ties.__struct_fields__)
_NOT_HERE = ("id",)
_decode = json_decoder(_FlowFile).decode


def parse_flow(
    text: str | bytes,
    what: str,
    *,
    queue: str,
    owner: str | None = None,
    submitted_by: str | None = None,
    retries: int | None = None,
    cwd: str | None = None,
) -> tuple[NewFlow, list[NewTask]]:
    """Read the flow that a file describes; `what` is the file's name in errors, the rest is for
    tasks that don't say. `cwd` is where commands run.
    """
    try:
        written = _decode(text)
    except msgspec.ValidationError as error:
        raise BadInput(f"{what}: {_explain(str(error), _FIELDS)}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        codec.parse(text, what)  # says what is wrong with it, and where
        raise BadInput(f"{what}: not usable as JSON") from None
    owner = written.owner or owner
    given: dict[str, Any] = {
        "queue": queue, "owner": owner, "retries": retries, "submitted_by": submitted_by
    }  # fmt: skip
    limits.check_count(f"{what}: tasks", written.tasks, limits.FLOW_TASKS)
    defaults = _read(written.defaults, f"{what}: defaults")
    extent = Extent(limits.quote(written.name))
    plans = []
    for name, fields in written.tasks.items():
        try:
            check_name(name)
        except BadInput as error:
            raise BadInput(f"{what}: tasks: {error}") from None
        place = f"{what}: tasks.{name}"
        options = _read(fields, place).over(defaults)
        plans.append(_plan(name, options, place, given, cwd, extent))
    try:
        return lay_out(written.name, plans, id=written.id, owner=owner)
    except BadInput as error:
        raise _at(f"{what}: tasks", error) from None


class _PartOptions(NamedTuple):
    """What is said of a part: which fields, what of others, and what of itself."""

    fields: Set[str]
    ties: _Ties
    known: dict[str, Any]

    def over(self, defaults: _PartOptions) -> _PartOptions:
        """Return a part's options over the defaults, which count where it says nothing, not even
        null.
        """
        if not defaults.fields:
            return self
        ties = {
            name: getattr(self.ties if name in self.fields else defaults.ties, name)
            for name in _TIES
        }
        known = {name: each for name, each in defaults.known.items() if name not in self.fields}
        fields = self.fields | defaults.fields
        return _PartOptions(fields, _Ties(**ties), {**known, **self.known})


def _read(fields: dict[str, msgspec.Raw], place: str) -> _PartOptions:
    try:
        ties = decode_json(_object({key: fields[key] for key in _TIES if key in fields}), _Ties)
    except msgspec.ValidationError as error:
        raise BadInput(f"{place}{_explain(str(error), _TIES, '.')}") from None
    rest = {key: value for key, value in fields.items() if key not in _TIES}
    for key in _NOT_HERE:
        if key in rest:
            raise BadInput(f"{place}.{key}: the id of a task is made of the flow's and its name")
    return _PartOptions(fields.keys(), ties, parse_submission(_object(rest), place))


def _plan(
    name: str,
    options: _PartOptions,
    place: str,
    given: dict[str, Any],
    cwd: str | None,
    extent: Extent,
) -> PartPlan:
    ties = options.ties
    pattern = _task(options.known, place, given, cwd)
    is_map = ties.map is not None
    if ties.at_once is not None and not is_map:
        raise BadInput(f"{place}.at_once: goes with a map: add the map, or leave it out")
    if isinstance(ties.map, list):
        if "parameters" in options.fields:
            raise BadInput(f"{place}.parameters: each item of a map is its task's: leave them out")
        tasks = _for_items(pattern, ties.map, f"{place}.map", extent)
    else:
        extent.add(size=checks.record_size(pattern))
        tasks = (pattern,)
    return PartPlan(
        name=name,
        tasks=tasks,
        is_map=is_map,
        at_once=ties.at_once,
        over=ties.map if isinstance(ties.map, str) else None,
        after=tuple(ties.after),
        after_tasks=tuple(ties.after_tasks),
        near=ties.near,
        near_wait=_wait(ties.near_wait, place),
    )


def _wait(written: float | str | None, place: str) -> float | None:
    try:
        return None if written is None else units.duration(written)
    except BadInput as error:
        raise BadInput(f"{place}.near_wait: {error}") from None


def _for_items(
    pattern: NewTask, items: Sequence[Value], place: str, extent: Extent
) -> tuple[NewTask, ...]:
    try:
        extent.add(tasks=len(items))
        tasks = []
        for item in items:
            task = for_item(pattern, item)
            extent.add(size=checks.record_size(task))
            tasks.append(task)
    except BadInput as error:
        raise _at(place, error) from None
    return tuple(tasks)


def for_item(pattern: NewTask, item: Value) -> NewTask:
    """Return the task of a map for one item."""
    command = None if pattern.command is None else fill_command(pattern.command, item)
    return replace(pattern, parameters=item, command=command)


def _task(known: dict[str, Any], place: str, given: dict[str, Any], cwd: str | None) -> NewTask:
    if "command" in known and cwd is not None:
        known.setdefault("cwd", cwd)
    try:
        return checks.new_task(**{**given, **known})
    except BadInput as error:
        raise _at(place, error) from None


def _at(place: str, error: BadInput) -> BadInput:
    return (TooLarge if isinstance(error, TooLarge) else BadInput)(f"{place}: {error}")


def _object(fields: dict[str, msgspec.Raw]) -> bytes:
    return msgspec.json.encode(fields)


def _explain(message: str, allowed: tuple[str, ...], dot: str = "") -> str:
    """Say what is wrong, the place in front."""
    problem, where = decode_errors.split(message)
    if "unknown field" in problem:
        problem = f"{problem.removeprefix('Object ')}: allowed are {', '.join(allowed)}"
    text = decode_errors.in_words(problem, where)
    if not where and allowed == _FIELDS:
        text += ' (a flow is {"name": "…", "tasks": {"first": {…}, …}})'
    return f"{dot}{where}: {text}" if where else f"{': ' if dot else ''}{text}"
