"""Queues: what there is, pausing, limits, dropping."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, cast

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import asdict

from stayer.core import codec
from stayer.core.errors import Refused, UnknownQueue
from stayer.core.model import FINISHED, JSON
from stayer.core.queue_model import Fair, Kept
from stayer.core.queue_settings import WrittenSettings
from stayer.core.submit import checks
from stayer.core.units import CENTURY
from stayer.http.filters import Limit, Partial, part_of
from stayer.http.pages import FIRST_TASKS, PAGE_SIZE, encode, encode_all
from stayer.http.route import Answer, Call
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control

_DELETE_BUDGET_S = 5.0
"""How long one request deletes tasks of a queue, in seconds; then it is to be repeated."""


class QueueNames(Struct, frozen=True, kw_only=True):
    """Which queues."""

    name: Annotated[tuple[str, ...], Meta(description="This queue. Repeat it for more.")] = ()
    partial: Partial = False


def find(call: Call) -> Answer:
    """Answer with the queues that were named, or all."""
    query: QueueNames = call.query
    read = partial(queue_control.list_queues, call.store)
    found, away = part_of(call.store, query.name, read, query.partial)
    return Answer({"queues": [codec.queue_record(queue) for queue in found], **away})


def show(call: Call) -> Answer:
    """Answer with one queue."""
    _check(call)
    [queue] = call.store.queues([call.path["name"]])
    return Answer(codec.queue_record(queue))


def _check(call: Call) -> None:
    name = call.path["name"]
    if not call.store.queues([name]):
        raise UnknownQueue(f"no queue {name!r}: a queue is made by its first task")


def pause(call: Call) -> Answer:
    """Let no more tasks of a queue be taken."""
    _check(call)  # a slip in the name must not make a queue
    return Answer(codec.queue_record(queue_control.pause_queue(call.store, call.path["name"])))


def resume(call: Call) -> Answer:
    """Let tasks of a queue be taken again."""
    _check(call)
    return Answer(codec.queue_record(queue_control.resume_queue(call.store, call.path["name"])))


Count = Annotated[int, Meta(ge=1, lt=2**31)]
Defaults = Annotated[
    dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/QueueDefaults"})
]


class QueueBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a queue: what is not named stays, null takes it away. `key_limits` are those of
    single keys, `rate` is written `100/1h`. `retention` is how many seconds after their end tasks,
    logs and results are kept; null: as the workers are told. `notify` are hooks that are told of
    its tasks: `mail`, `failed:https://…`. `defaults` are fields of a submission that its tasks have
    unless they say otherwise, such as `{"retries": 3, "time_limit": "2h"}`.
    """

    paused: bool | None = None
    limit: Count | UnsetType | None = UNSET
    key_limit: Count | UnsetType | None = UNSET
    key_limits: dict[str, Count | None] | UnsetType = UNSET
    rate: str | UnsetType | None = UNSET
    fair: Fair | UnsetType | None = UNSET
    notify: tuple[str, ...] | UnsetType | None = UNSET
    defaults: Defaults | UnsetType = UNSET
    retention: dict[Kept, Annotated[float, Meta(ge=0, le=CENTURY)] | None] | UnsetType = UNSET


def set_queue(call: Call) -> Answer:
    """Change the settings of a queue, which is made if it is not there."""
    body: QueueBody = call.body
    name = call.path["name"]
    checks.new_task(queue=name)  # checks the name
    written = {
        field: value for field, value in asdict(body).items() if value is not UNSET
    }  # None takes a limit away, but a queue is paused or not
    if body.paused is None:
        del written["paused"]
    queue = queue_control.set_queue(call.store, name, **cast(WrittenSettings, written))
    return Answer(codec.queue_record(queue))


class PeekQuery(Struct, frozen=True, kw_only=True):
    """How many."""

    limit: Limit = 10


def peek(call: Call) -> Answer:
    """Answer with the tasks that would be taken next: as many as fit into a page."""
    name, limit = call.path["name"], call.query.limit
    first = encode_all(call.record, call.store.peek(name, min(limit, FIRST_TASKS)))
    fit = PAGE_SIZE * len(first) // max(1, sum(map(len, first)))
    if len(first) == FIRST_TASKS and min(fit, limit) > FIRST_TASKS:
        first = encode_all(call.record, call.store.peek(name, min(fit, limit)))
    return Answer(Raw(encode({"tasks": first})))


class DropQuery(Struct, frozen=True, kw_only=True):
    """How determined."""

    force: Annotated[bool, Meta(description="Also tasks that have not ended.")] = False


def drop(call: Call) -> Answer:
    """Delete a queue with its tasks; of very many a part, then 202 says what is left."""
    name = call.path["name"]
    _check(call)
    counts = call.store.queues([name])[0].counts
    open_tasks = sum(number for state, number in counts.items() if state not in FINISHED)
    if open_tasks and not call.query.force:
        raise Refused(
            f"queue {name} has {open_tasks} unfinished tasks: cancel them first, or say force=true"
        )
    deadline = time.monotonic() + _DELETE_BUDGET_S
    while (left := call.store.drop_queue(name, control.BATCH)) and time.monotonic() < deadline:
        pass
    answer: dict[str, JSON] = {"name": name, "left": left}
    return Answer(answer, 202 if left else 200)
