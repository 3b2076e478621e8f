"""Lists over all queues: pages of the shards, merged.

A cursor is that of a shard with the name of its queue behind it. What was created in the same
moment in several queues has no order of its own: the queue's name decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stayer.core.errors import BadInput
from stayer.core.figures import COUNTED, MEASURED, Figures
from stayer.core.model import Filter, Page, Task
from stayer.stores.redis.cluster.shards import LOBBY, Shards
from stayer.stores.redis.find import Place, find_places

_DIGITS = 28


def find(shards: Shards, filter: Filter, cursor: str | None, limit: int) -> Page:
    """One page, and where the next one begins."""
    place, queue = "", ""
    if cursor is not None:
        place, queue = cursor[:_DIGITS], cursor[_DIGITS:]
        if len(place) < _DIGITS or not place.isdecimal() or not queue:
            raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page")
    if filter.ids:
        shards.places(filter.ids)  # what was claimed and not submitted is submitted
    found: list[tuple[Place, str, Task]] = []
    for name in dict.fromkeys(filter.queues) or shards.names():
        # Of the same moment, those of queues with lesser names come later.
        start = f"{int(place) + 1:028d}" if place and name < queue else place
        for at, task in find_places(shards.server_of(name), filter, start, limit + 1):
            found.append((at, name, task))
    found.sort(key=lambda each: each[:2], reverse=True)
    return _page(found, limit)


def _page(found: Sequence[tuple[Place, str, Task]], limit: int) -> Page:
    shown = [task for _, _, task in found[:limit]]
    if len(found) <= limit or not limit:
        return Page(tuple(shown), None)
    place, queue, _ = found[limit - 1]
    return Page(tuple(shown), f"{place}{queue}")


def figures(
    shards: Shards, since: float, until: float, step: int, queues: Sequence[str] | None
) -> list[Figures]:
    """Those of the shards; of all together their sum."""
    if queues is not None:
        names = dict.fromkeys(queues) or shards.names()
        found = [
            each for name in names for each in shards.of(name).figures(since, until, step, [name])
        ]
        return sorted(found, key=lambda each: (each.at, each.queue))
    by_moment: dict[float, Figures] = {}
    for shard in (shards.of(LOBBY), *shards.all()):
        for each in shard.figures(since, until, step, None):
            known = by_moment.get(each.at)
            by_moment[each.at] = each if known is None else _sum(known, each)
    return [by_moment[at] for at in sorted(by_moment)]


def _sum(one: Figures, other: Figures) -> Figures:
    """The age is that of the oldest; what nobody knows adds nothing."""
    sums: dict[str, Any] = {}
    for name in (*MEASURED, *COUNTED):
        known = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        sums[name] = (max if name == "age" else sum)(known) if known else None
    return replace(one, **sums)
