"""`Store.find`: the filter as the script gets it, and pages put together from its answers.

The scripts know nothing of conditions on JSON: what they find is looked at here. Each of them looks
at a number of tasks that is bounded (`portions.LOOKED_AT`), so that others have their turns.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.errors import BadInput
from stayer.core.filters import EQUAL
from stayer.core.json_match import matches
from stayer.core.model import Filter, Page, Task
from stayer.core.search import words
from stayer.stores.redis import portions
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.record import NUMBER_OF, Raw, created_and_seq, pack, tasks

_CURSOR = re.compile(r"\d{28}")
_END_OF_TIME = 10**16 - 1
_LOOKED_INTO = 500
"""How many tasks are fetched at a time to be looked into."""


Place = str
"""Where a task stands in lists: the beginning of its member, and the cursor of a page behind it."""


class Part(Struct, frozen=True):
    """Some of what is looked for: little enough for one script."""

    server: Server
    filter: Filter
    position: Place = ""
    """Behind which it goes on."""
    name: str = ""
    """What decides between tasks of one place: the greater comes first."""


class Match(Struct, frozen=True):
    """A task that was found."""

    place: Place
    name: str
    """Of its part."""
    task: Task


def find(server: Server, filter: Filter, cursor: str | None, limit: int) -> Page:
    """Find one page of tasks, and where the next one begins."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page")
    found, reached = find_newest(divide(Part(server, filter, cursor or "")), limit + 1)
    shown = found[:limit]
    following = None if reached is None else reached.position
    if shown and len(found) > limit:
        following = shown[-1].place
    return Page(tuple(match.task for match in shown), following)


def divide(part: Part) -> list[Part]:
    """Divide what names much, so that no script has very much to look at."""
    filter = part.filter
    if filter.ids:
        return [
            replace(part, filter=replace(filter, ids=some))
            for some in portions.divide(filter.ids, portions.IDS_AT_ONCE)
        ]
    return _divide_queues(part, filter.queues) if filter.queues and filter.flow is None else [part]


def _divide_queues(part: Part, queues: Sequence[str]) -> list[Part]:
    filters = (
        replace(part.filter, queues=some)
        for some in portions.divide(queues, portions.QUEUES_AT_ONCE)
    )
    return [replace(part, filter=each) for each in filters]


def find_newest(parts: Iterable[Part], limit: int) -> tuple[list[Match], Part | None]:
    """Find tasks that match, newest first: always in the part that has been looked at least far,
    until all are behind what was found. A script at a time, so that others have their turns.

    A search for words, or for what is in JSON, ends after some scripts, but for one of each part:
    then it also says how far it has come, which is where the part that it would have gone on with
    stands.
    """
    numbers = count()
    waiting = [(_order(part), next(numbers), part) for part in parts]
    heapq.heapify(waiting)
    unasked = {number for _, number, _ in waiting}
    found: list[Match] = []
    scripts = count(1)
    while waiting and limit:
        _, number, part = heapq.heappop(waiting)
        floor = found[-1].place if len(found) == limit else ""
        if floor and part.position and part.position <= floor:
            break
        may_end = _is_searched(part.filter) and part.position and number not in unasked
        if may_end and next(scripts) > portions.SEARCHES_A_PAGE:
            until = (part.position, part.name)
            return [match for match in found if (match.place, match.name) >= until], part
        more, following = _ask(part, floor, limit)
        found = sorted([*found, *more], key=lambda match: (match.place, match.name), reverse=True)
        del found[limit:]
        for each in following:
            heapq.heappush(waiting, (_order(each), next(numbers), each))
    return found, None


def _is_searched(filter: Filter) -> bool:
    """Return whether much may have to be looked at for little that is found."""
    return bool(filter.search or filter.meta or filter.where)


def _order(part: Part) -> int:
    """What has not been begun comes first, then what goes on at the newest place."""
    return -int(part.position) if part.position else -(10**28)


def _ask(part: Part, floor: Place, limit: int) -> tuple[list[Match], list[Part]]:
    """What one script finds of a part, not below a place; and what is left of the part."""
    wanted = pack(_pack_filter(part.filter))
    budget = portions.SEARCHED if part.filter.search else portions.LOOKED_AT
    looks_into = part.filter.meta or part.filter.where
    if looks_into:  # how many of them will do, nobody knows
        limit = max(limit, _LOOKED_INTO)
    answer = part.server.run(
        "find", wanted, part.position, floor, limit, budget, portions.QUEUES_AT_ONCE
    )
    if len(answer) == 1:
        return [], _divide_queues(part, [queue.decode() for queue in answer[0]])
    position = answer[0].decode()
    found = [
        Match(_place(value), part.name, task)
        for value, task in zip(answer[1], tasks(answer[1], answer[2]), strict=True)
    ]
    if len(found) == limit:
        position = found[-1].place
    if looks_into:
        found = [match for match in found if matches(part.filter, match.task)]
    return found, [replace(part, position=position)] if position else []


def _pack_filter(filter: Filter) -> Raw:
    equal = [
        (NUMBER_OF[name], value) for name in EQUAL if (value := getattr(filter, name)) is not None
    ]
    return (
        filter.ids or False, filter.prefix or False, filter.queues or False, filter.states or False,
        _unless_none(filter.name), equal or False, filter.tags or False,
        False if filter.held is None else int(filter.held),
        False if filter.since is None else _micros(filter.since),
        False if filter.until is None else _micros(filter.until),
        _unless_none(filter.flow), _unless_none(filter.fingerprint),
        [(word.plain, word.in_json) for word in words(filter.search or "")] or False,
        filter.has_files,
    )  # fmt: skip


def _unless_none(value: str | None) -> str | bool:
    return False if value is None else value


def _micros(moment: float) -> str:
    within = 0 if moment <= 0 else _END_OF_TIME if moment >= _END_OF_TIME / 1e6 else moment * 1e6
    return f"{math.ceil(within - 0.5):016d}"


def _place(value: bytes) -> Place:
    created, seq = created_and_seq(value)
    return f"{math.floor(created * 1e6 + 0.5):016d}{seq:012d}"
