"""Schedules: making, looking, changing, and the verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stayer.core import codec, units
from stayer.core.model import JSON, Task
from stayer.core.schedules import parse
from stayer.core.schedules.model import CatchUp, Overlap, Schedule
from stayer.core.submit.json import parse_submission
from stayer.http.route import Answer, Call
from stayer.service.control import schedules
from stayer.store import Store

_FOLLOWING = 5


class ScheduleNames(Struct, frozen=True, kw_only=True):
    """Which schedules."""

    name: Annotated[tuple[str, ...], Meta(description="This schedule. Repeat it for more.")] = ()


class MakeQuery(Struct, frozen=True, kw_only=True):
    """How determined."""

    replace: Annotated[bool, Meta(description="Take the place of one of that name.")] = False
    seen: Annotated[
        str | None, Meta(description="Only if its `updated` is still this; else it is refused.")
    ] = None


class ScheduleChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to decide otherwise."""

    cron: str | None = None
    zone: str | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    jitter: (
        Annotated[float, Meta(ge=0, le=units.CENTURY)]
        | Annotated[str, Meta(description="Such as 5m.")]
        | None
    ) = None
    paused: bool | None = None
    task: dict[str, Any] | None = None


def find(call: Call) -> Answer:
    """Answer with the schedules that were named, or all, with the state of their last task."""
    found = call.store.schedules(call.query.name)
    tasks = schedules.last_tasks(call.store, found)
    return Answer({"schedules": [_record_with_state(each, tasks.get(each.name)) for each in found]})


def show(call: Call) -> Answer:
    """Answer with one schedule and its next ticks."""
    found = schedules.get(call.store, call.path["schedule"])
    ticks = schedules.next_ticks(call.store, found, _FOLLOWING)
    shown = _answer(call.store, found)
    return Answer({**shown, "following": [units.rfc3339(tick) for tick in ticks]})


def make(call: Call) -> Answer:
    """Make a schedule; the same once more is no error."""
    wanted = parse.parse(call.body, "body", _task_defaults(call))
    new = not call.store.schedules([wanted.name])
    query: MakeQuery = call.query
    made = schedules.add(call.store, wanted, replacing=query.replace, seen=query.seen)
    return Answer(_answer(call.store, made), 201 if new else 200)


def change(call: Call) -> Answer:
    """Change what is named of a schedule."""
    body: ScheduleChange = call.body
    fields = {
        name: value for name, value in msgspec.structs.asdict(body).items() if value is not None
    }
    if body.jitter is not None:
        fields["jitter"] = units.duration(body.jitter)
    if body.task is not None:
        written = codec.encode(body.task)
        known = parse_submission(written, "body: task")
        fields["task"] = parse.task_for({**_task_defaults(call), **known})
    return Answer(
        _answer(call.store, schedules.change(call.store, call.path["schedule"], **fields))
    )


def drop(call: Call) -> Answer:
    """Forget a schedule; its tasks stay."""
    schedules.drop(call.store, call.path["schedule"])
    return Answer(None, 204)


def _verb(act: Callable[[Store, str], Schedule]) -> Callable[[Call], Answer]:
    return lambda call: Answer(_answer(call.store, act(call.store, call.path["schedule"])))


pause = _verb(schedules.pause)
resume = _verb(schedules.resume)


def run(call: Call) -> Answer:
    """Submit the task of a schedule now, once."""
    return Answer(codec.record(schedules.run(call.store, call.path["schedule"])), 201)


def _task_defaults(call: Call) -> dict[str, Any]:
    assert call.who is not None
    settings = call.service.settings
    return {"queue": settings.queue, "retries": settings.retries, "owner": call.who.name}


def _answer(store: Store, schedule: Schedule) -> dict[str, JSON]:
    return _record_with_state(schedule, schedules.last_tasks(store, [schedule]).get(schedule.name))


def _record_with_state(schedule: Schedule, task: Task | None) -> dict[str, JSON]:
    return {**parse.record(schedule), "last_state": None if task is None else task.state}
