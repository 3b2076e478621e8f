"""`Store.find`: the filter as the script gets it, and pages put together from its answers."""

from __future__ import annotations

import math
import re

from stayer.core.errors import BadInput
from stayer.core.model import Filter, Page, Task
from stayer.stores.redis.record import Raw, fields, pack, tasks
from stayer.stores.redis.server import Server

_LOOKED_AT = 5000
"""How many tasks a script may look at before it lets others have their turn."""
_CURSOR = re.compile(r"\d{28}")
_END_OF_TIME = 10**16 - 1


def find(server: Server, filter: Filter, cursor: str | None, limit: int) -> Page:
    """One page, and where the next one begins."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page")
    wanted, position = pack(_packed(filter)), cursor or ""
    values: list[bytes] = []
    found: list[Task] = []
    while True:
        left = limit + 1 - len(found)
        answer = server.run("find", wanted, position, left, _LOOKED_AT)
        position = answer[0].decode()
        values += answer[1]
        found += tasks(answer[1], answer[2])
        if not position or len(found) > limit:
            break
    more = len(found) > limit
    return Page(tuple(found[:limit]), _cursor(values[limit - 1]) if more and limit else None)


def _packed(filter: Filter) -> Raw:
    return (
        filter.ids or False, filter.prefix or False, filter.queues or False, filter.states or False,
        _unless_none(filter.name), _unless_none(filter.owner), filter.tags or False,
        _unless_none(filter.worker),
        False if filter.held is None else int(filter.held),
        False if filter.since is None else _micros(filter.since),
        False if filter.until is None else _micros(filter.until),
        _unless_none(filter.flow), _unless_none(filter.key), _unless_none(filter.unique),
    )  # fmt: skip


def _unless_none(value: str | None) -> str | bool:
    return False if value is None else value


def _micros(moment: float) -> str:
    within = 0 if moment <= 0 else _END_OF_TIME if moment >= _END_OF_TIME / 1e6 else moment * 1e6
    return f"{math.ceil(within - 0.5):016d}"


def _cursor(value: bytes) -> str:
    """The beginning of the task's member in the lists."""
    created, _, seq = fields(value)[:3]
    return f"{math.floor(created * 1e6 + 0.5):016d}{int(seq):012d}"
