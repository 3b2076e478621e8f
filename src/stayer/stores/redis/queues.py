"""Settings of queues, and forgetting: whole queues, tasks that have ended, what was kept for long
enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from stayer.core.errors import Refused, UnknownQueue
from stayer.core.limits import QUEUE
from stayer.core.model import State
from stayer.core.queue_model import Kept, QueueInfo, QueueSettings
from stayer.core.queue_settings import refuse_key_limits
from stayer.core.submit.defaults import merge, read_defaults, write_defaults
from stayer.stores.redis import defaults, portions, record
from stayer.stores.redis.connection.server import ScriptRefusal, Server
from stayer.stores.redis.reads import decode_queues


def set_queue(server: Server, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
    """Change those settings that are named; raises BadInput if that makes too many key limits."""
    most = QUEUE["key_limits"].items
    while True:
        packable = _packable(settings)
        if asked := packable.pop("defaults", None):
            known = defaults.of(server, name)
            packable["defaults"] = known, write_defaults(merge(read_defaults(known), asked))
        try:
            answer = server.run("set_queue", name, record.pack(packable), most)
        except ScriptRefusal as refusal:
            if refusal.word == "CHANGED":
                continue
            refuse_key_limits(int(refusal.details))
            raise
        return decode_queues(answer)[0]


def _packable(settings: QueueSettings) -> dict[str, record.Raw]:
    """Write settings as the script reads them: false takes one away."""
    packable: dict[str, record.Raw] = {
        field: False if value is None else value for field, value in settings.items()
    }
    if "paused" in settings:
        packable["paused"] = int(settings["paused"])
    for field in ("key_limits", "retention"):
        if field in packable:
            packable[field] = {
                key: False if value is None else value for key, value in packable[field].items()
            }
    if "notify" in settings:
        packable["notify"] = "\n".join(settings["notify"]) or False
    if rate := settings.get("rate"):
        packable["rate"] = (rate.count, rate.per)
    return packable


def drop_queue(server: Server, name: str, limit: int) -> int:
    """Delete some of its tasks, and at last the queue; how many tasks are left."""
    try:
        return int(server.run("drop_queue", name, limit))
    except ScriptRefusal as refusal:
        if refusal.word == "UNKNOWN":
            raise UnknownQueue(
                f"no queue {name!r}: `stayer queues` lists those there are"
            ) from None
        raise Refused(
            f"queue {name} has {refusal.details} running tasks: cancel them and wait for their "
            "end first"
        ) from None


def purge(
    server: Server, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
) -> list[str]:
    """Forget tasks that have ended; the answer is their ids."""
    among = record.pack(False if ids is None else ids)
    gone = server.run("purge", repr(float(before)), limit, record.pack(states), among)
    return [id.decode() for id in gone]


def forget(server: Server, retention: Mapping[Kept, float], limit: int) -> int:
    """Forget what was kept for long enough; how many things were seen to."""
    pairs = [(what, float(seconds)) for what, seconds in retention.items()]
    packed = record.pack([part for pair in pairs for part in pair])
    seen = 0
    for some in portions.portions_of_queues(server):
        left, state, task = some, 1, 0
        while left and seen < limit:
            number, following, state, task = server.run(
                "forget", limit - seen, packed, portions.LOOKED_AT, state, task, *left
            )
            seen += number
            left = left[following - 1 :] if following else ()
    return int(seen)
