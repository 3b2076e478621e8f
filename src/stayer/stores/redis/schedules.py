"""Schedules: what goes to the scripts, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from stayer.core.errors import Refused
from stayer.core.schedules.model import (
    CatchUp,
    Firing,
    Overlap,
    Schedule,
    explain_conflict,
    pack_task,
    unpack_task,
)
from stayer.stores.redis import defaults
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.tasks import pack_tasks
from stayer.stores.redis.record import Raw, pack


def schedules(server: Server, names: Sequence[str] = ()) -> list[Schedule]:
    """Read schedules by name."""
    selection = ("named", *names) if names else ("all",)
    found = {
        schedule.name: schedule for schedule in read_schedules(server.run("schedules", *selection))
    }
    return [schedule for _, schedule in sorted(found.items())]


def due_schedules(server: Server, limit: int) -> list[Schedule]:
    """Return the longest due first."""
    return read_schedules(server.run("schedules", "due", limit))


def put_schedule(
    server: Server, schedule: Schedule, seen: float | None = None, was: Schedule | None = None
) -> Schedule:
    """Make or change one; `was` is the one that a shard of a cluster takes over from another."""
    flat = [part for field in {**fields(schedule), "waiting": ""}.items() for part in field]
    fixed = (schedule.name, schedule.task.queue, _number(seen), _pack_replaced(was))
    found = read_schedules(server.run("put_schedule", *fixed, *flat))
    if not found:
        raise Refused(explain_conflict(schedule.name))
    return found[0]


def fields(schedule: Schedule) -> dict[str, str]:
    """What somebody may set of a schedule, as its hash has it; nothing for what is not there."""
    return {
        "cron": schedule.cron, "zone": schedule.zone, "task": pack_task(schedule.task),
        "overlap": schedule.overlap, "catch_up": schedule.catch_up,
        "jitter": _number(schedule.jitter), "paused": str(int(schedule.paused)),
        "origin": schedule.origin or "", "next": _number(schedule.next),
    }  # fmt: skip


def _pack_replaced(was: Schedule | None) -> bytes | str:
    if was is None:
        return ""
    moments = (_number(was.created), _number(was.last) or False)
    return pack((was.cron, was.zone, str(int(was.paused)), *moments, was.last_task or False))


def fire(server: Server, firing: Firing) -> bool:
    """Compare and swap, and with it the tasks."""
    arguments = Arguments(fixed=9)
    packed = pack(pack_tasks(defaults.apply(server, firing.tasks), arguments))
    moments = map(_number, (firing.updated, firing.seen, firing.last, firing.next))
    waiting = "1" if firing.waiting else ""
    fixed = (firing.name, *moments, waiting, packed)
    return bool(server.run("fire", *fixed, *arguments.values) == 1)


def drop_schedule(server: Server, name: str) -> bool:
    """Forget one."""
    return bool(server.run("drop_schedule", name) == 1)


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def read_schedules(answer: Raw) -> list[Schedule]:
    """Schedules as the scripts answer them."""
    return [_schedule(name.decode(), _hash(stored)) for stored, name in answer]


def _hash(stored: Sequence[bytes]) -> dict[str, str]:
    cells = [cell.decode() for cell in stored]
    return dict(zip(cells[::2], cells[1::2], strict=True))


def _schedule(name: str, fields: dict[str, str]) -> Schedule:
    def moment(field: str) -> Any:
        return float(fields[field]) if field in fields else None

    return Schedule(
        name=name,
        cron=fields["cron"],
        zone=fields["zone"],
        task=unpack_task(fields["task"]),
        overlap=cast(Overlap, fields["overlap"]),
        catch_up=cast(CatchUp, fields["catch_up"]),
        jitter=moment("jitter"),
        paused=fields["paused"] == "1",
        origin=fields.get("origin"),
        next=moment("next"),
        created=moment("created"),
        updated=moment("updated"),
        last=moment("last"),
        last_task=fields.get("last_task"),
        waiting="waiting" in fields,
    )
