"""Flows: submitting, looking, and the verbs on a whole one."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from stayer.core.decoding import decode_json
from stayer.core.errors import BadInput
from stayer.core.flows import model
from stayer.core.flows.json import parse_flow
from stayer.core.flows.model import NewFlow, Part
from stayer.core.flows.plan import check_laid_out
from stayer.core.model import JSON, NewTask
from stayer.core.submit import checks
from stayer.core.submit.json import parse_submission
from stayer.http.filters import Cursor, Limit
from stayer.http.pages import PAGE_SIZE, encode
from stayer.http.route import Answer, Call
from stayer.http.tasks import CancelBody
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control

_FIRST_FLOWS = 2
"""How many flows are read before it is known how large they are; then twice as many, each time."""
UPSTREAMS_NAMED = 20
"""How many of the tasks that another waits for are named."""


class LaidOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A flow that a program has laid out into tasks itself, as Stayer's own client does."""

    id: str
    name: str
    parts: tuple[Part, ...]
    laid_out: tuple[dict[str, msgspec.Raw], ...]
    owner: str | None = None


class _Ties(Struct, frozen=True):
    part: str
    behind: tuple[str, ...] = ()
    over: str | None = None


def submit(call: Call) -> Answer:
    """Submit a flow as a flow.json describes it: all of it, or nothing."""
    body: bytes = call.body
    assert call.who is not None
    settings = call.service.settings
    if _is_laid_out(body):
        new, tasks = _lay_out(call, body)
    else:
        new, tasks = parse_flow(
            body,
            "body",
            queue=settings.queue,
            owner=call.who.name,
            retries=settings.retries,
        )
    tasks = [replace(task, submitted_by=call.submitter) for task in tasks]
    found, fresh = flow_control.submit(call.store, new, tasks)
    location = f"{settings.root_path}/v1/flows/{quote(found.id, safe='')}"
    shown: dict[str, JSON] = {**model.record(found), "fresh": fresh}
    return Answer(shown, 201 if fresh else 200, {"location": location})


def _is_laid_out(body: bytes) -> bool:
    if b'"laid_out"' not in body:
        return False
    try:
        return "laid_out" in decode_json(body, dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False


def _lay_out(call: Call, body: bytes) -> tuple[NewFlow, list[NewTask]]:
    try:
        flow = decode_json(body, LaidOut)
        tasks = [_task(call, flow, fields) for fields in flow.laid_out]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadInput(f"the body is not a flow: {error}") from None
    assert call.who is not None
    owner = flow.owner or call.who.name
    new = NewFlow(id=flow.id, name=flow.name, owner=owner, parts=flow.parts)
    check_laid_out(new, tasks)
    return new, tasks


def _task(call: Call, flow: LaidOut, fields: dict[str, msgspec.Raw]) -> NewTask:
    names = _Ties.__struct_fields__
    ties = decode_json(
        msgspec.json.encode({name: fields[name] for name in names if name in fields}), _Ties
    )
    rest = {name: value for name, value in fields.items() if name not in names}
    submission = parse_submission(msgspec.json.encode(rest), "laid_out")
    settings = call.service.settings
    assert call.who is not None
    defaults = {"queue": settings.queue, "retries": settings.retries, "owner": call.who.name}
    new = checks.new_task(**{**defaults, **submission})
    if model.part_of(flow.id, new.id)[0] != ties.part:
        raise BadInput(f"laid_out: the id of {new.id!r} is not made of the flow's and of its part")
    policy = replace(new.policy, over=ties.over)
    return replace(new, flow=flow.id, part=ties.part, behind=ties.behind, policy=policy)


class FlowsQuery(Struct, frozen=True, kw_only=True):
    """Which page."""

    cursor: Cursor | None = None
    limit: Limit = 50


def find(call: Call) -> Answer:
    """Answer with a page of flows, newest first. It ends early where they have many parts."""
    query: FlowsQuery = call.query
    shown: list[msgspec.Raw] = []
    cursor, portion = query.cursor, _FIRST_FLOWS
    while True:
        page = call.store.flows(cursor, min(portion, query.limit - len(shown)))
        shown += (msgspec.Raw(encode(model.record(flow))) for flow in page.flows)
        cursor, portion = page.next, 2 * portion
        if cursor is None or len(shown) >= query.limit or sum(map(len, shown)) >= PAGE_SIZE:
            written = encode({"flows": shown, "next": cursor})
            return Answer(msgspec.Raw(written))


def show(call: Call) -> Answer:
    """Answer with one flow: its parts, what they run after, and how far they are."""
    return Answer(model.record(flow_control.get(call.store, call.path["id"])))


def cancel(call: Call) -> Answer:
    """Cancel all tasks of a flow that have not ended."""
    body: CancelBody = call.body
    id = call.path["id"]
    return Answer({"id": id, "tasks": flow_control.cancel(call.store, id, body.seconds())})


def retry(call: Call) -> Answer:
    """Let a flow go on from where it failed."""
    id = call.path["id"]
    if call.body.changes:
        raise BadInput("changes: retry single tasks with them, not a whole flow")
    if call.body.code == "latest":
        raise BadInput("code: a flow goes on with the code that it has; retry single tasks with it")
    number = flow_control.retry(call.store, id, from_start=call.body.from_start)
    return Answer({"id": id, "tasks": number})


class UpstreamsQuery(Struct, frozen=True, kw_only=True):
    """How much."""

    limit: Annotated[int, Meta(ge=0, le=1000, description="How many of `waits` at most.")] = (
        UPSTREAMS_NAMED
    )


def upstreams(call: Call) -> Answer:
    """Answer with what a task runs after, and what it waits for now."""
    task = control.get(call.store, call.path["id"])
    [of] = call.store.upstreams([task.id])
    waits, number = call.store.waits(task.id, call.query.limit)
    return Answer(
        {
            "after": list(of.after),
            "behind": list(of.behind),
            "waits": list[JSON](waits),
            "waiting_for": number,
        }
    )
