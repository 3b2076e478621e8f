"""Workers: who takes tasks, draining and dropping one, and letting them know who watches."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.responses import Response

from stayer.core import codec
from stayer.http.filters import Partial, part_of
from stayer.http.route import Answer, Call
from stayer.service.control import workers as worker_control
from stayer.service.degraded.partial import workers_in
from stayer.store import known_lost_workers

Names = Annotated[tuple[str, ...], Meta(max_length=1000)]


class WorkersQuery(Struct, frozen=True, kw_only=True):
    """Whether a part will do."""

    partial: Partial = False


def find(call: Call) -> Answer:
    """Answer with all workers, and those that were declared lost in the last day."""
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


class SetBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker is to do otherwise than its flags and settings say."""

    queues: Names = ()
    add_queues: Names = ()
    remove_queues: Names = ()
    slots: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    reset: bool = False


def set_worker(call: Call) -> Answer:
    """Change which queues a worker takes from, and how many tasks it runs at once."""
    body: SetBody = call.body
    changed = worker_control.set_worker(call.store, call.path["id"], **asdict(body))
    call.service.bells.ring_worker(changed.id)
    return Answer(codec.worker_record(changed))


class StopBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long what it runs may take to end."""

    grace: Annotated[float, Meta(ge=0, le=3155760000)] | None = None


def stop(call: Call) -> Answer:
    """Tell a worker to stop what it runs, and to leave."""
    stopping = worker_control.stop_worker(call.store, call.path["id"], call.body.grace)
    call.service.bells.ring_worker(stopping.id)
    return Answer(codec.worker_record(stopping))


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
