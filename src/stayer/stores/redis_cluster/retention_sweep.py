"""Forgetting tasks on a cluster: in their shards; then the claims on their ids are let go.

What a task of another queue may still need is asked for there, and forgotten the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stayer.core.model import State
from stayer.core.queue_model import Kept
from stayer.stores.redis.keys import key
from stayer.stores.redis_cluster import cross_shard
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.router import Shards
from stayer.stores.redis_cluster.shard import ShardStore

_SWEEP_BATCH = 500


def drop_queue(shards: Shards, name: str, limit: int) -> int:
    """Return how many of its tasks are left."""
    server = shards.server_of(name)
    place = key("ids", server.address.prefix, queue=name)
    first = server.ask("ZRANGE", place, 0, limit - 1) if limit > 0 else []
    shards.settle(name, [each.decode() for each in first])
    return _release_claims_after(shards, name, lambda shard: shard.drop_queue(name, limit))


def purge(
    shards: Shards,
    ids: Sequence[str] | None,
    states: Sequence[State],
    before: float,
    limit: int,
) -> list[str]:
    """Purge, and return what is gone."""
    gone: list[str] = []
    for queue, some in _places_of(shards, ids):
        while len(gone) < limit:
            gone += shards.of(queue).purge(some, states, before, limit - len(gone))
            if not cross_shard.free(shards, queue, _SWEEP_BATCH):
                break
    shards.let_go(gone)
    return gone


def _places_of(shards: Shards, ids: Sequence[str] | None) -> list[tuple[str, list[str] | None]]:
    """Return the queues to look in, and for which ids."""
    if ids is None:
        return [(name, None) for name in shards.names()]
    places = shards.by_place(ids, ids)
    return [(queue, [id for _, id in some]) for queue, some in places.items() if queue]


def forget(shards: Shards, retention: Mapping[Kept, float], limit: int) -> int:
    """Return how many were seen to."""
    seen, fan_out = 0, FanOut(shards)
    for name in shards.names():
        while seen < limit:
            some = fan_out.at(name, partial(_forget, shards, name, retention, limit - seen))
            seen += some or 0
            if some is None or not fan_out.attempt(
                partial(cross_shard.free, shards, name, _SWEEP_BATCH)
            ):
                break
    fan_out.check()
    return seen


def see_to_missing_records(shards: Shards, name: str) -> int:
    """Return how many tasks of a queue are lost, for their records are gone."""
    return _release_claims_after(shards, name, lambda shard: shard.see_to_missing_records())


def _forget(shards: Shards, name: str, retention: Mapping[Kept, float], limit: int) -> int:
    return _release_claims_after(shards, name, lambda shard: shard.forget(retention, limit))


def _release_claims_after(shards: Shards, name: str, step: Callable[[ShardStore], int]) -> int:
    """Do it, and let go of the claims of all that is told to be deleted meanwhile."""
    shard = shards.of(name)
    since = shard.last_event()
    answer = step(shard)
    while events := shard.watch(since, 0, 1000):
        shards.let_go([each.id for each in events if each.event == "deleted"])
        since = events[-1].number
    return answer
