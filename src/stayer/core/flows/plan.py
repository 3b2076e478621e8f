"""From the parts of a flow to its tasks: ids, what runs after what, and the throttle of a map."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec, ids, limits
from stayer.core.errors import BadInput, TooLarge
from stayer.core.flows.model import (
    NewFlow,
    Part,
    check_tasks,
    check_ties,
    in_order,
    part_of,
    task_id,
)
from stayer.core.limits import quote
from stayer.core.model import NewTask, Value
from stayer.core.submit.checks import check_record, record_size
from stayer.core.submit.names import check_id, check_word

ID_LIMIT = PART_LIMIT = 80
"""Together they make the ids of tasks, which may have 256 characters."""
PLACE = "{}"
"""Where the item of a map goes in a command."""
_NAMED = 20
"""How many parts an error names."""
_MOST_AT_ONCE = 2**31
_NAME = re.compile(r"[^\W]([\w-]*[^\W])?", re.ASCII)


class PartPlan(Struct, frozen=True, kw_only=True):
    """A part as somebody planned it; the ids of its tasks are still to be given."""

    name: str
    tasks: tuple[NewTask, ...]
    """One; or one for each item of a map; or, `over` another map, a pattern for all of them."""
    is_map: bool = False
    at_once: int | None = None
    over: str | None = None
    after: tuple[str, ...] = ()
    after_tasks: tuple[str, ...] = ()
    """Ids of tasks that are not of this flow."""
    near: str | None = None
    """The part, or the id outside, on whose node it is to run."""
    near_wait: float | None = None
    template: tuple[str, ...] | None = None
    """See `Part`."""


def check_name(name: str) -> None:
    """BadInput if it can't be that of a part."""
    if not isinstance(name, str) or len(name) > PART_LIMIT or not _NAME.fullmatch(name):
        raise BadInput(
            f"{quote(name)} can't be the name of a part of a flow: give up to {PART_LIMIT} "
            "letters, digits, _ and -"
        )


def lay_out(
    name: str, parts: Sequence[PartPlan], *, id: str | None = None, owner: str | None = None
) -> tuple[NewFlow, list[NewTask]]:
    """Make the flow and its tasks, fit to be submitted, or raise BadInput that says what to fix."""
    flow = _check_names(name, id)
    plans = {plan.name: plan for plan in parts}
    if len(plans) < len(parts):
        twice = next(plan.name for plan in parts if plans[plan.name] is not plan)
        raise BadInput(f"two parts of flow {name} are called {twice!r}: give one another name")
    limits.check_count(f"parts of flow {name}", parts, limits.FLOW_TASKS)
    check_ties(sum(len(plan.after) + len(plan.after_tasks) for plan in parts))
    order = in_order({plan.name: _upstreams(plan, plans) for plan in parts})
    _check_extent(name, [plans[each] for each in order])
    laid: dict[str, list[NewTask]] = {}
    for each in order:
        laid[each] = _tasks(flow, plans[each], laid)
    new = NewFlow(
        id=flow,
        name=name,
        owner=owner,
        parts=tuple(_part(plan, laid[plan.name]) for plan in parts),
    )
    return new, [task for plan in parts for task in laid[plan.name]]


class Extent:
    """What a flow comes to, counted before it is laid out; TooLarge if that is more than fits."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._tasks = self._ties = self._size = 0

    def add(self, *, tasks: int = 0, ties: int = 0, size: int = 0) -> None:
        """Count these, too; the size is that of all of them."""
        self._tasks += tasks
        self._ties += ties
        self._size += size
        check_tasks(self._flow, self._tasks)
        check_ties(self._ties)
        if self._size > limits.FLOW_BYTES:
            raise TooLarge(
                f"the tasks of flow {self._flow} are over {limits.FLOW_BYTES:,} bytes with their "
                f"parameters, at most {limits.FLOW_BYTES:,} fit: store the data elsewhere and pass "
                "where it is"
            )


def _check_extent(flow: str, plans: Sequence[PartPlan]) -> None:
    """TooLarge if these parts, each behind those that it runs after, come to too much."""
    extent = Extent(flow)
    numbers: dict[str, int] = {}
    sizes: dict[int, int] = {}
    for plan in plans:
        times = 1 if plan.over is None else numbers[plan.over]
        number = numbers[plan.name] = len(plan.tasks) * times
        others = sum(numbers[part] for part in plan.after if part != plan.over)
        ties = number * (others + len(plan.after_tasks) + (plan.over is not None))
        if plan.at_once is not None:
            ties += max(0, number - plan.at_once)
        extent.add(tasks=number, ties=ties)
        for task in plan.tasks:
            check_record(task)  # an item of a map may have made its command long
            # Many tasks have the same parameters, which are measured once.
            if (known := sizes.get(id(task.parameters))) is None:
                known = sizes[id(task.parameters)] = codec.size(task.parameters)
            extent.add(size=times * (known + record_size(task)))


def limit_parallel(names: Sequence[str], at_once: int | None) -> list[tuple[str, ...]]:
    """Say what each of these is to stand behind so that no more than so many run at once: they form
    as many lines, and each waits for the one before it in its line, however that one ends.
    """
    if at_once is None:
        return [()] * len(names)
    return [() if at < at_once else (names[at - at_once],) for at in range(len(names))]


def fill_command(command: Sequence[str], item: Value) -> tuple[str, ...]:
    """Make the command for an item: `{}` stands for it, as text or else as JSON."""
    places = sum(word.count(PLACE) for word in command)
    if isinstance(item, bytes) or not places:
        return tuple(command)
    text = item if isinstance(item, str) else codec.encode(item)
    length = sum(map(len, command)) + places * (len(text) - len(PLACE))
    if length > limits.TEXT:
        raise TooLarge(
            f"the command for item {quote(item)} has {length:,} characters, at most "
            f"{limits.TEXT:,} fit: pass what is long in the parameters"
        )
    return tuple(word.replace(PLACE, text) for word in command)


def check_laid_out(flow: NewFlow, tasks: Sequence[NewTask]) -> None:
    """BadInput if a flow that somebody else has laid out has longer names, or greater numbers, than
    one that comes from `lay_out`. Stores check what waits for what.
    """
    _check_names(flow.name, flow.id)
    if flow.owner is not None:
        check_word("owner", flow.owner)
    parts = {part.name for part in flow.parts}
    limits.check_count("parts", flow.parts, limits.FLOW_TASKS)
    if len(parts) < len(flow.parts):
        raise BadInput("parts: two of them have the same name")
    check_ties(sum(len(part.after) for part in flow.parts))
    check_tasks(flow.name, len(tasks))
    for part in flow.parts:
        _check_part(part, parts)
    for task in tasks:
        _, place = part_of(flow.id, task.id)
        if place is not None and place >= limits.FLOW_TASKS:
            raise BadInput(f"laid_out: {quote(task.id)}: there are no maps with so many tasks")
        if task.policy.over is not None and task.policy.over not in parts:
            raise BadInput(f"laid_out: {quote(task.id)}: over: give the name of a part")


def _check_part(part: Part, parts: Collection[str]) -> None:
    check_name(part.name)
    if part.queue:
        check_word("queue", part.queue)
    limits.check_length("kind", part.kind, limits.PATH)
    if not 0 <= part.tasks <= limits.FLOW_TASKS or not 1 <= (part.at_once or 1) < _MOST_AT_ONCE:
        raise BadInput(f"{part.name}: a part has no such number of tasks, or of tasks at once")
    if unknown := [each for each in part.after if each not in parts]:
        raise BadInput(f"{part.name}: no part of the flow is called {quote(unknown[0])}")


def _check_names(name: str, id: str | None) -> str:
    check_word("the name of a flow", name)
    if id is None:
        return ids.generate()
    check_id("the id of a flow", id)
    if len(id) > ID_LIMIT:
        raise BadInput(f"the id of a flow has {len(id)} characters, at most {ID_LIMIT} fit")
    return id


def _upstreams(plan: PartPlan, plans: dict[str, PartPlan]) -> tuple[str, ...]:
    check_name(plan.name)
    if plan.at_once is not None and (
        isinstance(plan.at_once, bool) or not isinstance(plan.at_once, int) or plan.at_once < 1
    ):
        raise BadInput(f"{plan.name}: at_once {plan.at_once!r}: give a whole number from 1 on")
    if plan.over is not None and plan.over in plans and not plans[plan.over].is_map:
        raise BadInput(f"{plan.name}: {plan.over} is no map: give the name of one, or a list")
    named = plan.after if plan.over is None else (plan.over, *plan.after)
    for each in named:
        if each not in plans:
            raise BadInput(
                f"{plan.name}: no part of the flow is called {quote(each)}: there are "
                f"{_some(plans)}. Tasks outside the flow go into after_tasks"
            )
    return tuple(dict.fromkeys(named))


def _some(names: Collection[str]) -> str:
    shown = ", ".join(islice(names, _NAMED))
    more = len(names) - _NAMED
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _tasks(flow: str, plan: PartPlan, laid: dict[str, list[NewTask]]) -> list[NewTask]:
    common = tuple(task.id for part in plan.after if part != plan.over for task in laid[part])
    common += plan.after_tasks
    patterns = plan.tasks
    each_after: list[tuple[str, ...]] = [()] * len(patterns)
    if plan.over is not None:
        over = laid[plan.over]
        patterns, each_after = plan.tasks * len(over), [(task.id,) for task in over]
    places = range(len(patterns)) if plan.is_map else (None,)
    names = [task_id(flow, plan.name, place) for place in places]
    behind = limit_parallel(names, plan.at_once)
    return [
        replace(
            pattern,
            id=name,
            generated=False,
            flow=flow,
            part=plan.name,
            after=(*after, *common),
            behind=line,
            policy=replace(
                pattern.policy,
                over=plan.over,
                near=_near(plan, after, laid),
                near_wait=plan.near_wait,
            ),
        )
        for pattern, name, after, line in zip(patterns, names, each_after, behind, strict=True)
    ]


def _near(plan: PartPlan, after: tuple[str, ...], laid: dict[str, list[NewTask]]) -> str | None:
    """Return the id of the task near which one of a part is to run."""
    if plan.near is None:
        return None
    if plan.near == plan.over:
        return after[0]
    if plan.near in plan.after_tasks:
        return plan.near
    if plan.near not in plan.after:
        raise BadInput(
            f"{plan.name}: near {quote(plan.near)}: give one of those that it runs after"
        )
    if len(laid[plan.near]) != 1:
        raise BadInput(
            f"{plan.name}: near {plan.near!r}, which is a map: give a part of one task, or map "
            "over it"
        )
    return laid[plan.near][0].id


def _part(plan: PartPlan, tasks: Sequence[NewTask]) -> Part:
    first = (*tasks, *plan.tasks)[0] if tasks or plan.tasks else None
    return Part(
        name=plan.name,
        queue=first.queue if first else "",
        kind=(first.name or (first.command[0] if first.command else "")) if first else "",
        tasks=len(tasks),
        is_map=plan.is_map,
        at_once=plan.at_once,
        template=plan.template,
        after=plan.after if plan.over is None else tuple(dict.fromkeys((plan.over, *plan.after))),
    )
