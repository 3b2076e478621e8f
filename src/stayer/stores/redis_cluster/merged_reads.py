"""Looking at all queues: pages of the shards, merged.

A cursor is that of a shard with the name of its queue behind it. What was created in the same
moment in several queues has no order of its own: the queue's name decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from stayer.core.availability import Reach
from stayer.core.errors import BadInput, StoreUnreachable
from stayer.core.flows.model import Upstreams
from stayer.core.insight.queue_stats import Figures, total
from stayer.core.model import Filter, Page
from stayer.stores.redis.find import Part, divide, find_newest
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.router import REGISTRY, Shards

_DIGITS = 28


def find(shards: Shards, filter: Filter, cursor: str | None, limit: int) -> Page:
    """Find one page of tasks, and where the next one begins."""
    place, queue = "", ""
    if cursor is not None:
        place, queue = cursor[:_DIGITS], cursor[_DIGITS:]
        if len(place) < _DIGITS or not place.isdecimal() or not queue:
            raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page")
    if filter.ids:
        shards.places(filter.ids)  # what was claimed and not submitted is submitted
    parts: list[Part] = []
    for name in filter.queues or shards.names():
        # Of the same moment, those of queues with lesser names come later.
        start = f"{int(place) + 1:028d}" if place and name < queue else place
        of_queue = filter if filter.flow is not None else replace(filter, queues=(name,))
        parts += divide(Part(shards.server_of(name), of_queue, start, name))
    found, reached = find_newest(parts, limit + 1)
    shown = found[:limit]
    following = None if reached is None else f"{reached.position}{reached.name}"
    if shown and len(found) > limit:
        following = f"{shown[-1].place}{shown[-1].name}"
    return Page(tuple(match.task for match in shown), following)


def reach(shards: Shards, queues: Sequence[str]) -> Reach:
    """Asks each of them, but a node that hangs only once."""
    fan_out, there, away = FanOut(shards), list[str](), dict[str, str]()
    for name in sorted(set(queues)) or shards.names():
        if fan_out.at(name, partial(shards.of(name).queues, [name])) is None:
            away[name] = fan_out.why
        else:
            there.append(name)
    if away and not there:
        raise StoreUnreachable(fan_out.why)
    return Reach(tuple(there), away)


def upstreams(shards: Shards, ids: Sequence[str]) -> list[Upstreams]:
    """Return what each runs after, from the shard of each."""
    found = [Upstreams() for _ in ids]
    for queue, numbered in shards.by_place(ids, ids).items():
        if queue:
            answers = shards.of(queue).upstreams([id for _, id in numbered])
            for (number, _), each in zip(numbered, answers, strict=True):
                found[number] = each
    return found


def figures(
    shards: Shards, since: float, until: float, step: int, queues: Sequence[str] | None
) -> list[Figures]:
    """Return those of the shards; of all together their sum."""
    if queues is not None:
        names = dict.fromkeys(queues) or shards.names()
        found = [
            each for name in names for each in shards.of(name).figures(since, until, step, [name])
        ]
        return sorted(found, key=lambda each: (each.at, each.queue))
    shown = (shards.of(REGISTRY), *shards.all())
    return total(each for shard in shown for each in shard.figures(since, until, step, None))
