"""Workers: who takes tasks, draining and giving up one, and letting them know who watches."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from stayer.core import codec
from stayer.http.filters import Partial, part_of
from stayer.http.route import Answer, Call
from stayer.service.control import workers as worker_control
from stayer.service.degraded.partial import workers_in
from stayer.store import known_lost_workers


class WorkersQuery(Struct, frozen=True, kw_only=True):
    """Whether a part will do."""

    partial: Partial = False


def find(call: Call) -> Answer:
    """Answer with all workers, and those that were given up in the last day."""
    read = partial(workers_in, call.store)
    found, away = part_of(call.store, (), read, call.query.partial)
    down = known_lost_workers(call.store, found)
    return Answer(
        {
            "workers": [codec.worker_record(worker) for worker in found],
            "down": [codec.lost_worker_record(lost) for lost in down],
            **away,
        }
    )


def drain(call: Call) -> Answer:
    """Let a worker take no more tasks."""
    drained = worker_control.drain(call.store, call.path["id"])
    call.service.bells.ring_worker(drained.id)
    return Answer(codec.worker_record(drained))


def drop(call: Call) -> Answer:
    """Give up a stale worker."""
    id = call.path["id"]
    return Answer({"id": id, "returned": worker_control.drop_worker(call.store, id)})


class AttendBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom somebody watches, and for how long."""

    workers: Annotated[tuple[str, ...], Meta(max_length=1000)]
    seconds: Annotated[float, Meta(ge=0, le=300)] = 10.0


def attend(call: Call) -> Response:
    """Ask workers for news every second."""
    body: AttendBody = call.body
    call.store.attend(body.workers, body.seconds)
    for worker in body.workers:
        call.service.bells.ring_worker(worker)
    return Response(status_code=204)
