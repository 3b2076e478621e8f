"""Building flows in Python: tasks that run after others, submitted as one thing.

flow = Flow("nightly")
fetched = flow.add(fetch.s("2026-11-15"))
cleaned = flow.map(clean, ["a", "b", "c"], at_once=2, after=[fetched])
flow.add(command=["./publish.sh"], queue="web", after=[cleaned])
client.submit(flow)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.flows.model import NewFlow
from stayer.core.flows.plan import PART_LIMIT, PartPlan, check_name, fill_command, lay_out
from stayer.core.model import NewTask, Value

Build: TypeAlias = Callable[..., NewTask]
"""Makes a task of a queue, parameters and options, with what is configured."""


class Call(Protocol):
    """A call of a task function, as its `s(…)` gives it."""

    def make_task(
        self, build: Build, queue: str | None, otherwise: str | None, options: Mapping[str, Any]
    ) -> NewTask:
        """Build the task that it is, in this queue, or `otherwise`, if its function names none."""


class Callee(Protocol):
    """A task function."""

    name: str

    def s(self, *args: Any, **kwargs: Any) -> Call: ...


class FlowPart(Struct, frozen=True):
    """A part of a flow, to be named in the `after` of others."""

    name: str
    is_map: bool = False


After: TypeAlias = "Sequence[FlowPart | str]"
"""Parts of the same flow, or ids of tasks that are there already."""


class Flow:
    """Tasks that depend on each other. Nothing is submitted before `client.submit(flow)`."""

    def __init__(
        self, name: str, *, id: str | None = None, queue: str | None = None, **options: Any
    ) -> None:
        """`queue` and options hold for the parts that say nothing else."""
        self.name = name
        self.id = id
        self._queue = queue
        self._options = options
        self._parts: dict[str, Callable[[Build], PartPlan]] = {}

    def __repr__(self) -> str:
        return f"<Flow {self.name} of {len(self._parts)} parts>"

    def add(
        self,
        call: Call | None = None,
        *,
        command: Sequence[str] | None = None,
        parameters: object = None,
        name: str | None = None,
        part: str | None = None,
        queue: str | None = None,
        after: After = (),
        near: FlowPart | str | None = None,
        near_wait: float | str | None = None,
        **options: Any,
    ) -> FlowPart:
        """Add one task: a call of a task function, a command, or a `name` with parameters. Options
        are those of `enqueue`; `part` is what it is called in the flow. `near` is one of `after`,
        on whose node it is to run if that can be within `near_wait`.
        """
        if sum(what is not None for what in (call, command, name)) > 1:
            raise BadInput("give a call, a command or a name, not several of them")
        pattern = self._pattern(call, command, name, parameters, queue, options)
        kind = _program(command) if command else _last_word(getattr(call, "name", name) or "task")
        upstreams, outside = self._upstreams(after)

        def plan(build: Build) -> PartPlan:
            tasks = (pattern(build),)
            return PartPlan(
                name=called,
                tasks=tasks,
                after=upstreams,
                after_tasks=outside,
                near=_name_of(near),
                near_wait=None if near_wait is None else units.duration(near_wait),
            )

        called = self._enter(part, kind, plan)
        return FlowPart(called)

    def map(
        self,
        what: Callee | Sequence[str],
        items: Iterable[object] | FlowPart,
        *,
        at_once: int | None = None,
        part: str | None = None,
        queue: str | None = None,
        after: After = (),
        near: FlowPart | str | None = None,
        near_wait: float | str | None = None,
        **options: Any,
    ) -> FlowPart:
        """Add a task for each item: a task function that is called with it (a mapping: by name), or
        a command in which `{}` stands for it. `items` may be another map: then there is a task for
        each of its tasks, which runs after just that one (and `near` it, if that map is named). No
        more than `at_once` run at a time.
        """
        is_command = isinstance(what, list | tuple)
        if isinstance(what, str) or not (is_command or hasattr(what, "s")):
            raise BadInput("map takes a task function, or a command as a list of words")
        kind = _program(what) if is_command else _last_word(what.name)  # type: ignore[arg-type, union-attr]
        over = items.name if isinstance(items, FlowPart) else None
        if over is not None and not cast(FlowPart, items).is_map:
            raise BadInput(f"{over} is no map: give a list of items, or a part that is one")
        given = [] if isinstance(items, FlowPart) else list(items)
        upstreams, outside = self._upstreams(after)

        def plan(build: Build) -> PartPlan:
            if over is not None:
                tasks = [self._one(what, (), queue, options)(build)]
            else:
                tasks = [self._one(what, (item,), queue, options)(build) for item in given]
            return PartPlan(
                name=called,
                tasks=tuple(tasks),
                is_map=True,
                at_once=at_once,
                over=over,
                after=upstreams,
                after_tasks=outside,
                near=_name_of(near),
                near_wait=None if near_wait is None else units.duration(near_wait),
            )

        called = self._enter(part, kind, plan)
        return FlowPart(called, is_map=True)

    def chain(self, *steps: Call | Sequence[str], after: After = (), **options: Any) -> FlowPart:
        """Calls and commands, each after the one before; the last of them."""
        if not steps:
            raise BadInput("a chain needs at least one step")
        last = after
        for step in steps:
            if isinstance(step, list | tuple):
                last = [self.add(command=step, after=last, **options)]
            else:
                last = [self.add(cast(Call, step), after=last, **options)]
        return cast(FlowPart, last[0])

    def laid_out(self, build: Build, owner: str | None = None) -> tuple[NewFlow, list[NewTask]]:
        """Lay out the flow and its tasks. For `client.submit`."""
        parts = [plan(build) for plan in self._parts.values()]
        return lay_out(self.name, parts, id=self.id, owner=owner)

    def _pattern(
        self,
        call: Call | None,
        command: Sequence[str] | None,
        name: str | None,
        parameters: object,
        queue: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[Build], NewTask]:
        merged = {**self._options, **options}
        if call is not None:
            return lambda build: call.make_task(build, queue, self._queue, merged)
        where = queue or self._queue or "default"
        return lambda build: build(where, parameters, command=command, name=name, **merged)

    def _one(
        self,
        what: Callee | Sequence[str],
        item: tuple[object, ...],
        queue: str | None,
        options: Mapping[str, Any],
    ) -> Callable[[Build], NewTask]:
        """Build the task of a map for an item, or for none."""
        if isinstance(what, list | tuple):
            value = cast(Value, item[0]) if item else None
            command = fill_command(what, value) if item else what
            return self._pattern(None, command, None, value, queue, options)
        function = cast(Callee, what)
        if item and isinstance(item[0], Mapping):
            return self._pattern(function.s(**item[0]), None, None, None, queue, options)
        return self._pattern(function.s(*item), None, None, None, queue, options)

    def _upstreams(self, after: After) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if isinstance(after, str | FlowPart):
            raise BadInput(f"after {after!r}: give a list, such as [{after!r}]")
        parts = tuple(each.name for each in after if isinstance(each, FlowPart))
        for name in parts:
            if name not in self._parts:
                raise BadInput(f"{name} is no part of flow {self.name}: it is of another one")
        return parts, tuple(each for each in after if isinstance(each, str))

    def _enter(self, wanted: str | None, kind: str, plan: Callable[[Build], PartPlan]) -> str:
        name = wanted
        if name is None:
            stem = re.sub(r"\W+", "-", kind, flags=re.ASCII).strip("-")[: PART_LIMIT - 6] or "task"
            name, number = stem, 2
            while name in self._parts:
                name, number = f"{stem}-{number}", number + 1
        check_name(name)
        if name in self._parts:
            raise BadInput(f"flow {self.name} has a part {name!r} already: give this another name")
        self._parts[name] = plan
        return name


def _program(command: Sequence[str]) -> str:
    return os.path.splitext(os.path.basename(command[0]))[0]


def _name_of(part: FlowPart | str | None) -> str | None:
    return part.name if isinstance(part, FlowPart) else part


def _last_word(name: str) -> str:
    return name.rpartition(".")[2]
