"""`POST /v1/tasks`: the way that is gone most often, and so the shortest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from stayer.core import codec, ids
from stayer.core.decoding import decode_json
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import JSON, NewTask, Submitted
from stayer.core.submit import checks
from stayer.core.submit.accepted_json import encode_accepted
from stayer.core.submit.json import parse_submission
from stayer.core.submit.names import check_word
from stayer.http.problem import Problem
from stayer.http.route import INLINE_BODY_BYTES, Answer, Call
from stayer.http.scopes import check_answer, check_new
from stayer.service import tracing
from stayer.service.control import tasks as control
from stayer.service.degraded.ambiguous import naming_drawn_ids

BATCH_LIMIT = 1000
"""How many tasks one request may bring."""
_encode = msgspec.json.Encoder().encode


class TasksBody(Struct, frozen=True):
    """Many submissions."""

    tasks: tuple[Raw, ...]


async def submit(call: Call) -> Answer:
    """Submit one task (an object), or many (an array, or `{"tasks": […]}`)."""
    body: bytes = call.body
    if len(body) > INLINE_BODY_BYTES:
        new_tasks = await call.ask(_read_tasks, call, ids.generate)
    else:
        new_tasks = _read_tasks(call, call.service.submitter.draw_id)
    if isinstance(new_tasks, NewTask):
        [answer] = await _submit_batched(call, [new_tasks])
        if answer.purged:  # nothing is there under this id, and nothing may be
            assert call.who is not None
            check_answer(call.who, answer)
            control.refuse_deleted(new_tasks, answer)
        location = call.service.settings.root_path + "/v1/tasks/" + _quote(answer.task.id)
        shown = _encode_answer(call, new_tasks, answer)
        return Answer(Raw(shown), 201 if answer.fresh else 200, {"location": location})
    answers = await _submit_batched(call, new_tasks) if new_tasks else []
    many = [
        _encode_or_refuse(call, new, answer) for new, answer in zip(new_tasks, answers, strict=True)
    ]
    fresh = any(answer.fresh for answer in answers)
    return Answer(Raw(b'{"tasks":[%b]}' % b",".join(many)), 201 if fresh else 200)


async def _submit_batched(call: Call, tasks: list[NewTask]) -> list[Submitted]:
    """Submit tasks as a part of the trace that the caller or this server has."""
    if any(task.start_before is not None or task.code is not None for task in tasks):
        await call.ask(control.check_startable, call.store, tasks)
    parent, state = call.headers.get(b"traceparent"), call.headers.get(b"tracestate")
    with naming_drawn_ids(call.store, tasks):
        if parent is None and not call.service.traced:
            return await call.service.submitter.submit(tasks)
        trace = tracing.read_context(_text(parent), _text(state))
        with tracing.trace_submit(tasks, trace) as traced:
            return await call.service.submitter.submit(traced)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _read_tasks(call: Call, draw: Callable[[], str]) -> NewTask | list[NewTask]:
    """Read the tasks of the body; `draw` gives the id of one that has none."""
    body: bytes = call.body
    beginning = body.lstrip()[:1]
    if beginning == b"[":
        return _read_many(call, _pieces(body, tuple[Raw, ...]))
    if beginning == b"{" and b'"tasks"' in body:
        try:
            fields = decode_json(body, dict[str, Raw])
        except msgspec.DecodeError:
            fields = {}  # what is wrong is said below
        if fields.keys() == {"tasks"}:
            return _read_many(call, _pieces(body, TasksBody).tasks)
    return _new_task(call, body, "body", draw)


def _pieces(body: bytes, kind: Any) -> Any:
    try:
        return decode_json(body, kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadInput(f"the body is not a list of tasks: {error}") from None


def _read_many(call: Call, pieces: tuple[Raw, ...]) -> list[NewTask]:
    if len(pieces) > BATCH_LIMIT:
        raise TooLarge(f"{len(pieces):,} tasks at once: send at most {BATCH_LIMIT:,} in a request")
    draw = iter(ids.generate_many(len(pieces))).__next__
    return [_new_task(call, bytes(piece), f"task {n}", draw) for n, piece in enumerate(pieces)]


def _new_task(call: Call, text: bytes, what: str, draw: Callable[[], str]) -> NewTask:
    fields = parse_submission(text, what)
    assert call.who is not None
    settings = call.service.settings
    queue = call.who.queues[0] if len(call.who.queues) == 1 else settings.queue
    fields.setdefault("queue", queue)
    fields.setdefault("retries", settings.retries)
    fields.setdefault("owner", call.who.name)
    if isinstance(claimed := fields.get("submitted_by"), str):
        check_word("submitted_by", claimed)  # what anybody says has a limit, also if it is not used
    fields["submitted_by"] = call.submitter
    if call.who.queues:
        fields["owner"] = call.who.name  # fair turns of owners are not to be had many times
    try:
        new = checks.new_task(draw=draw, **fields)
        if new.generated and call.who.queues and not call.who.any_id:
            new = replace(new, id=ids.below_queue(new.queue, new.id))
        codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    except BadInput as error:
        error.args = (f"{what}: {error}",)
        raise
    check_new(call.who, new)
    return new


def _encode_or_refuse(call: Call, new: NewTask, answer: Submitted) -> bytes:
    """The answer for one of many: what is refused to one is no word about the others, which are
    accepted by now.
    """
    try:
        return _encode_answer(call, new, answer)
    except Problem as problem:
        return _encode({"id": new.id, "fresh": False, "refused": str(problem)})


def _encode_answer(call: Call, new: NewTask, answer: Submitted) -> bytes:
    assert call.who is not None
    check_answer(call.who, answer)
    if answer.fresh:
        return encode_accepted(answer.task)
    shown: dict[str, JSON] = {**call.record(answer.task), "fresh": False}
    if other := control.difference(new, answer):
        shown["warning"] = f"task {new.id} {other}"
    if answer.purged:
        shown["purged"] = True
    return _encode(shown)


def _quote(id: str) -> str:
    return id if id.isascii() and id.isalnum() else quote(id, safe="")
