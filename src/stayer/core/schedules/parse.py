"""From what a user asks for to a Schedule, and to the JSON that shows it: what all doors share."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec, units
from stayer.core.decoding import convert, decode_json
from stayer.core.errors import BadInput
from stayer.core.limits import SCHEDULE, check_length, quote
from stayer.core.model import JSON, NewTask
from stayer.core.schedules import cron
from stayer.core.schedules.model import CATCH_UPS, OVERLAPS, CatchUp, Overlap, Schedule
from stayer.core.submit import checks, decode_errors
from stayer.core.submit.json import parse_submission
from stayer.core.submit.names import check_id
from stayer.core.units import CENTURY

DEFINITION = ("cron", "zone", "task", "overlap", "catch_up", "jitter")
"""What a schedule is, apart from its name and whether it is paused."""
NOT_FOR_TASKS = (
    "id", "eta", "delay", "start_before", "after", "when_failed", "near", "near_wait",
)  # fmt: skip
"""What a task that comes again and again can't have."""


class WrittenSchedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as it is written."""

    name: str
    cron: str
    task: dict[str, Any] = {}
    zone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    jitter: float | str = 0.0
    paused: bool = False
    origin: str | None = None


def check_schedule(schedule: Schedule, now: float) -> Schedule:
    """Return the schedule fit to be put into a store, due at its first tick from now on, or raise
    BadInput.
    """
    name = schedule.name
    checks.new_task(queue=schedule.task.queue, name=name)  # checks the words
    check_id("name", name)  # the ids of its tasks begin with it
    check_length("name", name, SCHEDULE["name"].characters)
    if schedule.origin is not None:
        check_length("origin", schedule.origin, SCHEDULE["origin"].characters)
    if schedule.overlap not in OVERLAPS:
        raise BadInput(f"overlap {quote(schedule.overlap)} is none of {', '.join(OVERLAPS)}")
    if schedule.catch_up not in CATCH_UPS:
        raise BadInput(f"catch_up {quote(schedule.catch_up)} is none of {', '.join(CATCH_UPS)}")
    if not (math.isfinite(schedule.jitter) and 0 <= schedule.jitter <= CENTURY):
        raise BadInput(f"jitter {schedule.jitter!r}: give seconds from 0 on")
    cron.check(schedule.cron, schedule.zone)
    return replace(schedule, next=cron.next_tick(schedule, now))


def task_for(fields: Mapping[str, Any]) -> NewTask:
    """Make what the ticks submit from the fields of a submission."""
    for name in NOT_FOR_TASKS:
        if fields.get(name) not in (None, (), [], "cancel"):
            raise BadInput(f"{name} is for one task, a schedule submits many: leave it out")
    return without_id(checks.new_task(**fields))


def without_id(task: NewTask) -> NewTask:
    """Return the task without an id: each tick has its own. Nor does it say who submitted it: the
    schedule does.
    """
    return replace(task, id="", generated=False, submitted_by=None)


def parse(
    written: Mapping[str, Any] | bytes,
    what: str,
    defaults: Mapping[str, Any],
    folder: str | None = None,
) -> Schedule:
    """Read a schedule that somebody wrote in JSON or TOML; `defaults` are for its task, `folder` is
    where a command runs that says nothing else, and what its cwd is relative to.
    """
    try:
        if isinstance(written, bytes):
            given_fields = decode_json(written, WrittenSchedule)
        else:
            given_fields = convert(written, WrittenSchedule)
        task = codec.encode(given_fields.task)
    except msgspec.ValidationError as error:
        raise BadInput(f"{what}: {_explain(error)}") from None
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what}: {error}") from None
    fields = parse_submission(task, f"{what}: task")
    if folder is not None and "command" in fields:
        fields["cwd"] = os.path.normpath(os.path.join(folder, fields.get("cwd", "")))
    try:
        schedule = Schedule(
            name=given_fields.name,
            cron=given_fields.cron,
            zone=given_fields.zone,
            overlap=given_fields.overlap,
            catch_up=given_fields.catch_up,
            jitter=units.duration(given_fields.jitter),
            paused=given_fields.paused,
            origin=given_fields.origin,
            task=task_for({**defaults, **fields}),
        )
        check_schedule(schedule, 0.0)
    except BadInput as error:
        error.args = (f"{what}: {error}",)
        raise
    return schedule


def _explain(error: msgspec.ValidationError) -> str:
    problem, field = decode_errors.split(str(error))
    text = f"{problem[:1].lower()}{problem[1:]}"
    if "unknown field" in text:
        return f"{text}: there are {', '.join(WrittenSchedule.__struct_fields__)}"
    return f"{field}: {text}" if field else text


def schedule_json(schedule: Schedule) -> dict[str, JSON]:
    """Write a schedule as JSON that `parse` reads."""
    shown = record(schedule)
    return {name: shown[name] for name in WrittenSchedule.__struct_fields__}


def record(schedule: Schedule) -> dict[str, JSON]:
    """Return a schedule as JSON, as it is shown."""
    task = {
        name: value
        for name, value in checks.submission_json(schedule.task).items()
        if name not in NOT_FOR_TASKS
    }
    times = {
        name: _time(getattr(schedule, name)) for name in ("next", "created", "updated", "last")
    }
    plain = (
        "name", "cron", "zone", "overlap", "catch_up", "jitter", "paused", "origin", "last_task",
    )  # fmt: skip
    return {**{name: getattr(schedule, name) for name in plain}, "task": task, **times}


def _time(moment: float | None) -> str | None:
    return None if moment is None else units.rfc3339(moment)
