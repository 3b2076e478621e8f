"""Schedules on a cluster: each is in the shard of its queue, so a tick and its tasks are one step.

One that gets another queue is put there before it is dropped where it was. Whoever finds both, for
somebody died in between, believes the one that was changed last.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stayer.core.errors import Refused
from stayer.core.schedules.model import Firing, Schedule, explain_conflict
from stayer.stores.redis import schedules as one_shard
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.router import Shards


def schedules(shards: Shards, names: Sequence[str] = ()) -> list[Schedule]:
    """By name."""
    found = [each for shard in shards.all() for each in shard.schedules(names)]
    return [schedule for _, schedule in sorted(_newest(found).items())]


def due_schedules(shards: Shards, limit: int) -> list[Schedule]:
    """The longest due first."""
    due = FanOut(shards).all(lambda shard: shard.due_schedules(limit))
    found = [each for some in due for each in some]
    return sorted(_newest(found).values(), key=lambda schedule: schedule.next or 0.0)[:limit]


def put_schedule(shards: Shards, schedule: Schedule, seen: float | None = None) -> Schedule:
    """Make or change one. The shard of its queue compares; one that comes from another queue is
    compared before the step.
    """
    queue = schedule.task.queue
    found = schedules(shards, [schedule.name])
    if seen is not None and [each.updated for each in found] != [seen]:
        raise Refused(explain_conflict(schedule.name))
    was = next((each for each in found if each.task.queue != queue), None)
    shards.add([queue])
    put = one_shard.put_schedule(
        shards.server_of(queue), schedule, seen if was is None else None, was
    )
    _drop_from([name for name in shards.names() if name != queue], shards, schedule.name)
    return put


def fire(shards: Shards, firing: Firing) -> bool:
    """Ids are claimed first; what comes of a claim is up to the step that compares."""
    found = FanOut(shards).all(lambda shard: shard.schedules([firing.name]))
    homes = {each.task.queue: each for some in found for each in some}
    if not homes:
        return False
    home = max(homes, key=lambda name: homes[name].updated)
    _drop_from([name for name in homes if name != home], shards, firing.name)
    if (homes[home].updated, homes[home].last) != (firing.updated, firing.seen):
        return False  # before ids are claimed of which nothing will come
    claims = shards.claims.mention(firing.tasks)
    taken = {each.id for each in claims if each.queue == home and each.plan is None}
    fresh = tuple(new for new in firing.tasks if new.id in taken)
    return shards.of(home).fire(replace(firing, tasks=fresh))


def drop_schedule(shards: Shards, name: str) -> bool:
    """Forget one."""
    return _drop_from(shards.names(), shards, name)


def _drop_from(queues: Sequence[str], shards: Shards, name: str) -> bool:
    return sum(shards.of(queue).drop_schedule(name) for queue in queues) > 0


def _newest(found: Sequence[Schedule]) -> dict[str, Schedule]:
    return {each.name: each for each in sorted(found, key=lambda schedule: schedule.updated)}
