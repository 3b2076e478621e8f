"""New tasks as the scripts get them (`lib/submit.lua` names the parts), and what became of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from stayer.core import codec
from stayer.core.errors import UNCHANGED, StoreError
from stayer.core.model import NewTask, Submitted
from stayer.stores.redis import record
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.record import Raw, apart, from_new, is_plain, pack


class Decided(Struct, frozen=True):
    """What a shard of a cluster hears with its part of tasks that come all or none."""

    needed: frozenset[str]
    """Those of them that others are to run after, in whichever shards."""
    states: dict[str, str]
    """Of what they are to run after in other shards."""


class Promised(Exception):
    """On a cluster: a unique word is promised to another task: `nonce id`."""


GROUP_FIELDS = (
    "queue", "lane", "priority", "held", "generated", "delay", "eta", "expire", "deadline",
    "unique", "first", "ids", "apart",
)  # fmt: skip
"""The parts of a group of new tasks (`lib/submit.lua` says what they are)."""
_IDS, _APART = GROUP_FIELDS.index("ids"), GROUP_FIELDS.index("apart")
TIE_FIELDS = ("id", "after", "behind", "anyhow", "near")
"""The parts of what a task is to run after (see `pack_ties`)."""
FIXED = 8
"""How many arguments of the script come before the values."""
Form: TypeAlias = "str | bytes | None"
_GROUP_SIZE = 1000
"""How many tasks may be in a group: each is a few arguments of a command in Lua."""
_PART_SIZE = 200
_FIRST_PARTS = (40, 100)
"""Where the first parts end: the smaller they are, the sooner the server has something to do."""


def pack_tasks(
    tasks: Sequence[NewTask], arguments: Arguments, needed: Collection[str] = ()
) -> list[Raw]:
    """Neighbours that differ in nothing that the indexes know are a group. `needed` are those that
    others of them are to run after.
    """
    return _groups(tasks, _forms(tasks), arguments, needed)


def parts_of(tasks: Sequence[NewTask]) -> list[slice] | None:
    """Return which of them to tell the server of at a time: it is at some while the next are
    packed. None if they are too few for that, or something about one of them may yet turn out to be
    wrong.
    """
    if len(tasks) <= _PART_SIZE or not all(map(is_plain, tasks)):
        return None
    ends = [0, *_FIRST_PARTS, *range(_PART_SIZE, len(tasks), _PART_SIZE), len(tasks)]
    return [slice(first, end) for first, end in pairwise(ends)]


def pack_parts(tasks: Sequence[NewTask], parts: Sequence[slice]) -> Iterator[list[Raw]]:
    """Pack what the script gets of each part, when it is asked for."""
    forms = _forms(tasks)
    return (_pack_part(tasks[part], forms[part]) for part in parts)


def _pack_part(tasks: Sequence[NewTask], forms: Sequence[Form]) -> list[Raw]:
    arguments = Arguments(fixed=FIXED)
    packed = pack(_groups(tasks, forms, arguments, ()))
    return [packed, has_one_twice(tasks), "", "", "", "", *arguments.values]


def make_partial_error(error: StoreError, accepted: int, sent: int) -> StoreError:
    """Make the error for what went wrong on the way through the parts; so many tasks were accepted
    before.
    """
    some = type(error)(
        f"{str(error).replace(UNCHANGED, '')}. Of {sent:,} tasks that were sent together "
        f"{f'at least {accepted:,}' if accepted else 'some'} were accepted: submit all of them "
        "again under the same ids"
    )
    some.unsure = True
    return some


def has_one_twice(tasks: Sequence[NewTask]) -> int:
    """Return 1 if an id is that of two of them, else 0."""
    return int(len({new.id for new in tasks}) < len(tasks))


def _forms(tasks: Sequence[NewTask]) -> list[Form]:
    return [codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT) for new in tasks]


def _groups(
    tasks: Sequence[NewTask], forms: Sequence[Form], arguments: Arguments, needed: Collection[str]
) -> list[Raw]:
    groups: list[Raw] = []
    likeness: Raw = None
    for new, form in zip(tasks, forms, strict=True):
        mine = _likeness(new)
        number = arguments.add(from_new(new, form, new.id in needed))
        if mine != likeness or len(groups[-1][_IDS]) == _GROUP_SIZE:
            likeness = mine
            groups.append((*mine, number, [], []))
        groups[-1][_IDS].append(new.id)
        groups[-1][_APART].append(form if form is not None and apart(form) else False)
    for group in groups:
        forms_apart = group[_APART]
        forms_apart[:] = [False if form is False else arguments.add(form) for form in forms_apart]
    return groups


def _likeness(new: NewTask) -> tuple[Raw, ...]:
    return (
        new.queue, _lane(new), new.priority, new.held, new.generated,
        None if new.delay is None else float(new.delay),
        new.eta is not None or new.flow is not None or bool(new.after or new.behind),
        _expire(new), _deadline(new), new.unique is not None,
    )  # fmt: skip


def _expire(new: NewTask) -> float | str | None:
    """Return when it expires, as the script takes it; not False, which Python takes for 0."""
    if new.expire is not None:
        return float(new.expire)
    at_a_moment = new.start_before is not None or new.policy.deadline is not None
    return "at a moment" if at_a_moment else None


def _deadline(new: NewTask) -> float | None:
    return None if new.policy.deadline is None else float(new.policy.deadline)


def pack_ties(tasks: Sequence[NewTask]) -> list[Raw]:
    """Pack what these are to run after: {id, upstreams, those that need only have ended, whether
    the others need no more, the one of them near which it is to run}.
    """
    return [
        (
            new.id,
            new.after,
            new.behind,
            new.policy.when_failed == "run",
            False if new.policy.near is None else new.policy.near,
        )
        for new in tasks
        if new.after or new.behind
    ]


def _lane(new: NewTask) -> str:
    """Return which handler it needs."""
    if new.command:
        return f"command {new.command[0]}"
    return "" if new.name is None else f"name {new.name}"


def read_answers(
    tasks: Sequence[NewTask],
    now: float,
    not_fresh: Sequence[Raw],
    waiting: Collection[str] = (),
    needed: Collection[str] = (),
) -> list[Submitted]:
    """Say what became of each, by what the script answers of those that were not fresh."""
    known = _read_not_fresh(tasks, not_fresh)
    return [
        known[at]
        if at in known
        else Submitted(
            record.task_as_submitted(new, now, new.id in waiting, new.id in needed), True
        )
        for at, new in enumerate(tasks)
    ]


def _read_not_fresh(tasks: Sequence[NewTask], not_fresh: Sequence[Raw]) -> dict[int, Submitted]:
    """Return the answers for those that were not fresh, by their number."""
    known = {}
    for at in range(0, len(not_fresh), 5):
        number, how, value, parameters, result = not_fresh[at : at + 5]
        if how == 1:
            [task] = record.tasks([value], (0, parameters, result))
            known[number] = Submitted(task, False)
        elif how == 2:
            known[number] = Submitted(record.read_purged(tasks[number].id, value), False, True)
        else:
            raise Promised(value.decode())
    return known
