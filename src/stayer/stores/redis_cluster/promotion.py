"""`Store.promote` on a cluster: what time brings in each queue, and what came in from outside."""

from __future__ import annotations

from functools import partial

from stayer.stores.redis_cluster import cross_shard, incoming, retention_sweep
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.incoming import Commit
from stayer.stores.redis_cluster.router import Shards
from stayer.stores.redis_cluster.two_phase import PLAN_ABANDONED_S

_RETRY_S = 5.0
"""When to look again, in seconds, if something can't be reached."""


def promote(shards: Shards, commit: Commit, limit: int) -> float | None:
    """When to come again. One queue that can't be reached holds up none of the others."""
    fan_out = FanOut(shards)
    moments = [shards.now() + PLAN_ABANDONED_S] if fan_out.attempt(shards.plans.sweep) else []
    due_left = late_left = limit
    noted: list[str] = []
    came_in = fan_out.attempt(partial(incoming.count_waiting, shards))
    for name in shards.names():
        step = partial(shards.server_of(name).run, "promote", due_left, late_left)
        if (answer := fan_out.at(name, step)) is None:
            continue
        following, _, notes, due, late, met = answer
        if met:
            fan_out.at(name, partial(retention_sweep.see_to_missing_records, shards, name))
            moments.append(0.0)
        due_left, late_left = due_left - due, late_left - late
        if following is not None:
            moments.append(float(following))
        if notes:
            noted.append(name)
    if noted and cross_shard.relay(fan_out, noted, limit, 1):
        return 0.0
    left = fan_out.attempt(partial(incoming.take, fan_out, commit, limit)) if came_in else 0
    fan_out.check()
    if fan_out.misses or shards.nodes.has_silent_replicas():
        return min([*moments, shards.now() + _RETRY_S])
    if left:
        return shards.now()
    if noted or came_in:
        moments += [float(each[0]) for each in shards.each("promote", 0, 0) if each[0]]
    return min(moments, default=None)
