"""Sweeps: submitting one, and the table that compares its runs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from stayer.core.errors import BadInput
from stayer.core.flows import model, sweep
from stayer.core.model import JSON
from stayer.core.submit import checks
from stayer.core.submit.json import parse_submission
from stayer.http.route import Answer, Call
from stayer.service.control import flows as flow_control
from stayer.service.control import sweeps as sweep_control

_GRID = "Parameters by name, each with its values: a task for each combination."
_TASK = "What each task is, as in a submission. In its command `{name}` stands for a value."


class SweepBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task, and the parameters that vary."""

    parameters: Annotated[dict[str, list[Any]], Meta(description=_GRID)]
    task: Annotated[dict[str, Any], Meta(description=_TASK)] = {}
    id: str | None = None
    name: Annotated[str, Meta(description="What it is called in lists.")] | None = None
    throttle: Annotated[int, Meta(ge=1, description="How many run at once at most.")] | None = None


def submit(call: Call) -> Answer:
    """Submit a task for each combination of parameters, all of them or none."""
    body: SweepBody = call.body
    said = parse_submission(msgspec.json.encode(body.task), "task")
    for name in sweep.NOT_FOR_SWEEPS:
        if name in said:
            raise BadInput(f"task.{name} would be the same for all tasks of a sweep: leave it out")
    settings = call.service.settings
    assert call.who is not None
    defaults = {"queue": settings.queue, "retries": settings.retries, "owner": call.who.name}
    try:
        pattern = checks.new_task(**{**defaults, **said, "submitted_by": call.submitter})
    except BadInput as error:
        error.args = (f"task: {error}",)
        raise
    flow, tasks = sweep.plan_sweep(
        body.parameters, pattern, id=body.id, name=body.name, throttle=body.throttle
    )
    found, fresh = flow_control.submit(call.store, flow, tasks)
    location = f"{settings.root_path}/v1/sweeps/{quote(found.id, safe='')}"
    shown: dict[str, JSON] = {**model.record(found), "fresh": fresh}
    return Answer(shown, 201 if fresh else 200, {"location": location})


class CompareQuery(Struct, frozen=True, kw_only=True):
    """Which runs."""

    part: Annotated[str, Meta(description="This map of a flow. Default: its first.")] | None = None


def show(call: Call) -> Answer:
    """Answer with the runs of a sweep, or of a map of a flow, for a table."""
    query: CompareQuery = call.query
    flow, runs = sweep_control.compare(call.store, call.path["id"], query.part)
    return Answer(sweep_control.record(flow, runs))
