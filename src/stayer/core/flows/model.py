"""Tasks that depend on each other: the records of a flow, and what follows from its shape. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, to_builtins

from stayer.core import limits
from stayer.core.errors import BadInput, TooLarge
from stayer.core.happenings import Happening, Ready, Retry, UpstreamFailed, WaitAgain
from stayer.core.lifecycle import decide, is_early
from stayer.core.model import (
    FINISHED,
    JSON,
    QUEUED,
    RUNNING,
    STATES,
    Change,
    NewTask,
    State,
    Task,
)
from stayer.core.ordering.affinity import near
from stayer.core.units import rfc3339

_NAMED = 10
"""How many names of a circle an error shows at either end."""


SWEEP_PART = "sweep"
"""What the only part of a sweep is called, which is a map."""


_SWEEP_KEY = "sweep "


def sweep_key(flow: str) -> str:
    """The key of the tasks of a sweep with a throttle: its queue limits how many run at once."""
    return f"{_SWEEP_KEY}{flow}"


def sweep_of_key(key: str) -> str | None:
    """The id of the sweep whose tasks have this key; None if it is no such key."""
    return key.removeprefix(_SWEEP_KEY) if key.startswith(_SWEEP_KEY) else None


class Part(Struct, frozen=True, kw_only=True):
    """A node of a flow's graph: one task, or the tasks of a map."""

    name: str
    queue: str
    kind: str = ""
    tasks: int = 1
    is_map: bool = False
    at_once: int | None = None
    after: tuple[str, ...] = ()
    template: tuple[str, ...] | None = None
    """Of a sweep: the command of its tasks, in which `{name}` stands for a parameter."""


class NewFlow(Struct, frozen=True, kw_only=True):
    """What a submitter asks for, apart from the tasks themselves."""

    id: str
    name: str
    owner: str | None = None
    parts: tuple[Part, ...] = ()


class FlowInfo(Struct, frozen=True, kw_only=True):
    """A flow as the store has it, and how many tasks of each part are in each state."""

    id: str
    name: str
    owner: str | None = None
    created: float = 0.0
    parts: tuple[Part, ...] = ()
    counts: dict[str, dict[State, int]] = {}

    @property
    def totals(self) -> dict[State, int]:
        """How many of its tasks are in each state."""
        return {
            state: sum(of_part.get(state, 0) for of_part in self.counts.values())
            for state in STATES
        }

    @property
    def state(self) -> State:
        """The state of the flow as if it were one task: it fails once nothing of it can go on and
        something failed.
        """
        return state_of(self.totals)


def state_of(counts: Mapping[State, int]) -> State:
    """Return the state of several tasks as if they were one."""
    if any(counts.get(state) for state in RUNNING):
        return "started"
    order: tuple[State, ...] = ("pending", "scheduled", "waiting", "failed", "cancelled")
    return next((state for state in order if counts.get(state)), "complete")


def record(flow: FlowInfo) -> dict[str, JSON]:
    """Return the flow as JSON shows it."""
    parts: list[JSON] = []
    for part in flow.parts:
        counts = flow.counts.get(part.name, {})
        parts.append(
            {
                **to_builtins(part),
                "state": state_of(counts),
                "counts": {state: counts.get(state, 0) for state in STATES},
            }
        )
    return {
        "id": flow.id,
        "name": flow.name,
        "owner": flow.owner,
        "created": rfc3339(flow.created),
        "state": flow.state,
        "counts": {state: flow.totals[state] for state in STATES},
        "parts": parts,
    }


class FlowPage(Struct, frozen=True):
    """Some flows, newest first, and where to go on (None: that was all)."""

    flows: tuple[FlowInfo, ...]
    next: str | None = None


class Upstreams(Struct, frozen=True):
    """What a task was to run after, and whose mere end it awaited."""

    after: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


def task_id(flow: str, part: str, place: int | None = None) -> str:
    """Return the id of a part's task, or of the one at a place of a map."""
    return f"{flow}.{part}" if place is None else f"{flow}.{part}.{place}"


def part_of(flow: str | None, id: str) -> tuple[str, int | None]:
    """Return the part of the flow that a task is, and its place in a map; of any other
    task its id.
    """
    if flow is None or not id.startswith(f"{flow}."):
        return id, None
    part, _, place = id.removeprefix(f"{flow}.").partition(".")
    return part, int(place) if place.isdecimal() else None


class Ended(Struct, frozen=True):
    """Something that a task waited for."""

    id: str
    state: State
    anyhow: bool = False
    """How it ended does not matter."""


def explain_unique_conflict(id: str, holder: str) -> str:
    """Say why tasks that belong together are refused when one of them can't be accepted."""
    return (
        f"task {id} can't be accepted while task {holder} holds its unique word, and others belong "
        "to it: wait for its end. Nothing was accepted"
    )


def check(tasks: Iterable[NewTask]) -> None:
    """BadInput if tasks that are submitted together wait for each other in a circle, or are tied
    together too often.
    """
    after = {new.id: (*new.after, *new.behind) for new in tasks}
    ties = sum(map(len, after.values()))
    check_ties(ties)
    if ties:
        in_order(after)


def check_tasks(flow: str, number: int) -> None:
    """TooLarge if a flow can't have so many tasks."""
    if number > limits.FLOW_TASKS:
        raise TooLarge(
            f"flow {flow} has {number:,} tasks, at most {limits.FLOW_TASKS:,} fit: let a task do "
            "more, or make it several flows"
        )


def check_ties(number: int) -> None:
    """TooLarge if a submission can't have so many pairs of a task and one that it runs after."""
    if number > limits.FLOW_TIES:
        raise TooLarge(
            f"{number:,} pairs of a task and one that it runs after are too many, at most "
            f"{limits.FLOW_TIES:,} fit: put one task in between, which waits for all and is waited "
            "for"
        )


def in_order(after: Mapping[str, Sequence[str]]) -> list[str]:
    """Sort the keys, each behind those of them that it comes after; BadInput if they go in a
    circle.
    """
    open_ends = {name: {each for each in of if each in after} for name, of in after.items()}
    followers: dict[str, list[str]] = {}
    for name, of in open_ends.items():
        for each in of:
            followers.setdefault(each, []).append(name)
    ready = [name for name, of in open_ends.items() if not of]
    order: list[str] = []
    for name in ready:
        order.append(name)
        for follower in followers.get(name, ()):
            open_ends[follower].discard(name)
            if not open_ends[follower]:
                ready.append(follower)
    if len(order) < len(after):
        raise BadInput(_circle({name: of for name, of in open_ends.items() if of}))
    return order


def _circle(stuck: dict[str, set[str]]) -> str:
    name = next(iter(stuck))
    way: dict[str, None] = {}  # in order, and looked up at once however long it is
    while name not in way:
        way[name] = None
        name = min(each for each in stuck[name] if each in stuck)
    names = list(way)
    circle = [*names[names.index(name) :], name]
    if len(circle) > 2 * _NAMED:
        circle = [*circle[:_NAMED], f"… ({len(circle) - 2 * _NAMED:,} more)", *circle[-_NAMED:]]
    shown = " → ".join(circle)
    return f"these wait for each other in a circle: {shown}. Take one `after` out"


def decide_waiting(
    task: Task, ended: Sequence[Ended], left: int, upstream: Task | None = None
) -> Change | None:
    """Decide what becomes of a waiting task now that these have ended and so many have not; None if
    it just waits on. `upstream` is the one that it is to run near.
    """
    bad = next((each for each in ended if each.state != "complete" and not each.anyhow), None)
    if bad is not None and task.policy.when_failed != "run":
        return decide(task, UpstreamFailed(f"{bad.id}, which is {bad.state}", last=not left))
    if left:
        return None
    found = near(task, upstream)
    return decide(task, Ready(None if found is None else (found.node, found.wait)))


def again(
    tasks: Mapping[str, Task],
    upstreams: Mapping[str, Upstreams],
    others: Mapping[str, State],
    *,
    now: float,
    from_start: bool = False,
) -> list[tuple[Task, Happening]]:
    """Decide what is to happen to the tasks of a flow so that it goes on from where it failed:
    those that failed or were cancelled once more, each behind what it runs after; what was held for
    such a failure waits once more; what is complete stays.

    `others` are the states of tasks outside the flow that some of it run after.
    """
    targets = {id for id, task in tasks.items() if task.state in ("failed", "cancelled")}
    goes_on = {id for id, task in tasks.items() if task.state not in FINISHED} | targets
    goes_on |= {id for id, state in others.items() if state not in FINISHED}
    forgiven = {
        id
        for id, task in tasks.items()
        if task.held and task.state in QUEUED and targets.intersection(upstreams[id].after)
    }
    lines = _Lines(tasks, upstreams, goes_on, targets | forgiven)
    plan: list[tuple[Task, Happening]] = []
    for id in in_order({id: (*of.after, *of.behind) for id, of in upstreams.items()}):
        task, of = tasks[id], upstreams[id]
        ahead = lines.place(id)
        waits = dict.fromkeys([each for each in of.after if each in goes_on] + ahead)
        if id in targets:
            plan.append((task, Retry(tuple(waits), from_start, is_early(task, now))))
        elif id in forgiven:
            plan.append((task, WaitAgain(tuple(waits))))
        elif ahead:
            # What failed outside the flow may be news to it yet.
            bad = [each for each in of.after if others.get(each) in ("failed", "cancelled")]
            plan.append((task, WaitAgain((*waits, *bad), held=task.held)))
    return plan


class _Lines:
    """The lines of a flow's throttles when some of it is placed anew: no line may have two at once.

    Those that run or may be taken can't be told to wait, so what is placed anew stands behind all
    of them, also behind those that came after it; and what still waits stands behind it as before.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        upstreams: Mapping[str, Upstreams],
        goes_on: set[str],
        anew: set[str],
    ) -> None:
        self._behind = {id: of.behind for id, of in upstreams.items()}
        self._followers: dict[str, list[str]] = {}
        for id, behind in self._behind.items():
            for each in behind:
                self._followers.setdefault(each, []).append(id)
        self._goes_on, self._anew = goes_on, anew
        self._waiting = {id for id, task in tasks.items() if task.state == "waiting"}
        self._taken = goes_on - anew - self._waiting
        self._follows: set[str] = set()
        """Those that have one that is placed anew before them in their line, or are one."""

    def place(self, id: str) -> list[str]:
        """Whom it is to wait for in its line, if that is to change. To be asked in order."""
        behind = self._behind[id]
        follows = not self._follows.isdisjoint(behind)
        if follows or id in self._anew:
            self._follows.add(id)
        if id in self._anew:
            # One that follows another stands behind whatever that one stands behind.
            return self._before(behind) + ([] if follows else self._find_active_after(id))
        if not follows or id not in self._waiting:
            return []
        before = self._before(behind)
        stays = all(each in behind and self._is_chained(each) for each in before)
        return [] if stays else before

    def _is_chained(self, id: str) -> bool:
        return id in self._waiting and id not in self._anew

    def _before(self, behind: Sequence[str]) -> list[str]:
        """Return the nearest before it that wait themselves, and all on the way that may run."""
        found: list[str] = []
        look, seen = list(behind), set(behind)
        for each in look:
            if each in self._goes_on:
                found.append(each)
            if each not in self._anew and each not in self._waiting:
                following = [id for id in self._behind.get(each, ()) if id not in seen]
                seen.update(following)
                look += following
        return found

    def _find_active_after(self, id: str) -> list[str]:
        """Return those after it that run, or may at any time."""
        look, seen = [id], {id}
        for each in look:
            following = [id for id in self._followers.get(each, ()) if id not in seen]
            seen.update(following)
            look += following
        return [each for each in look if each in self._taken]
