"""`Store.find`: the filter as the script gets it, and pages put together from its answers."""

from __future__ import annotations

import math
import re

from stayer.core.errors import BadInput
from stayer.core.model import Filter, Page, Task
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.record import Raw, created_and_seq, pack, tasks

_LOOKED_AT = 5000
"""How many tasks a script may look at before it lets others have their turn."""
_CURSOR = re.compile(r"\d{28}")
_END_OF_TIME = 10**16 - 1


Place = str
"""Where a task stands in lists: the beginning of its member, and the cursor of a page behind it."""


def find(server: Server, filter: Filter, cursor: str | None, limit: int) -> Page:
    """One page, and where the next one begins."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page")
    found = find_places(server, filter, cursor or "", limit + 1)
    more = len(found) > limit
    return Page(
        tuple(task for _, task in found[:limit]), found[limit - 1][0] if more and limit else None
    )


def find_places(
    server: Server, filter: Filter, position: Place, limit: int
) -> list[tuple[Place, Task]]:
    """Tasks that match, newest first, from behind a place on."""
    wanted = pack(_pack_filter(filter))
    found: list[tuple[Place, Task]] = []
    while True:
        answer = server.run("find", wanted, position, limit - len(found), _LOOKED_AT)
        position = answer[0].decode()
        found += zip(map(_place, answer[1]), tasks(answer[1], answer[2]), strict=True)
        if not position or len(found) >= limit:
            return found


def _pack_filter(filter: Filter) -> Raw:
    return (
        filter.ids or False, filter.prefix or False, filter.queues or False, filter.states or False,
        _unless_none(filter.name), _unless_none(filter.owner), filter.tags or False,
        _unless_none(filter.worker),
        False if filter.held is None else int(filter.held),
        False if filter.since is None else _micros(filter.since),
        False if filter.until is None else _micros(filter.until),
        _unless_none(filter.flow), _unless_none(filter.key), _unless_none(filter.unique),
        _unless_none(filter.fingerprint),
    )  # fmt: skip


def _unless_none(value: str | None) -> str | bool:
    return False if value is None else value


def _micros(moment: float) -> str:
    within = 0 if moment <= 0 else _END_OF_TIME if moment >= _END_OF_TIME / 1e6 else moment * 1e6
    return f"{math.ceil(within - 0.5):016d}"


def _place(value: bytes) -> Place:
    created, seq = created_and_seq(value)
    return f"{math.floor(created * 1e6 + 0.5):016d}{seq:012d}"
