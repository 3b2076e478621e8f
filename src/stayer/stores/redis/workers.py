"""Beats and workers: what goes to the scripts, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stayer.core.decoding import json_decoder
from stayer.core.insight import usage_series
from stayer.core.insight.statistics import latest_values
from stayer.core.model import Report
from stayer.core.worker_model import (
    Beat,
    Handles,
    Orders,
    Suspect,
    Worker,
    WorkerOrder,
    WorkerState,
)
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.record import Raw, order, text

_words = json_decoder(tuple[str, ...])
_handles = json_decoder(Handles)
_worker_order = json_decoder(WorkerOrder)
_json = msgspec.json.Encoder()
_unpack = msgspec.msgpack.Decoder().decode


def pack_worker(worker: Worker, number: int, nonce: str, *, alone: bool = False) -> Raw:
    """Pack what a beat says of the worker; alone: the registry shard has not heard of it."""
    return (
        worker.id, worker.node, worker.pid, _json.encode(worker.queues).decode(), worker.slots,
        worker.version, worker.draining, float(worker.lease), worker.keeps, number, nonce,
        "" if worker.handles is None else _json.encode(worker.handles).decode(), alone,
    )  # fmt: skip


def pack_reports(reports: Sequence[Report], arguments: Arguments) -> list[Raw]:
    """Return the reports of a beat."""
    return [_pack_report(report, arguments) for report in reports]


def _pack_report(report: Report, arguments: Arguments) -> tuple[Raw, ...]:
    slot, thin = 0, 0
    if report.usage is not None:
        slot, width = usage_series.slot(report.usage.ran)
        thin = width if usage_series.begins_wider_grid(slot, width) else 0
    return (
        report.id, report.attempt, text(report.progress),
        False if report.checkpoint is None else arguments.add(report.checkpoint),
        report.acknowledged,
        False if report.paused is None else int(report.paused),
        text(report.usage), slot, thin or False,
        [(piece.start, arguments.add(piece.data)) for piece in report.log],
        False if report.statistics is None else text(report.statistics),
        False if report.statistics is None else text(latest_values(report.statistics)),
    )  # fmt: skip


def beat(answer: Raw) -> Beat:
    """Return the answer to a beat."""
    now, orders, suspects, watched, drain, *order = answer
    return Beat(
        now=float(now),
        orders=tuple(
            Orders(orders[at].decode(), orders[at + 1], waiting)
            for at in range(0, len(orders), 3)
            if (waiting := _list_open_orders(orders[at + 2]))
        ),
        suspects=tuple(
            Suspect(suspects[at].decode(), suspects[at + 1], float(suspects[at + 2]))
            for at in range(0, len(suspects), 3)
        ),
        watched=watched == 1,
        drain=drain == 1,
        order=worker_order(order[0]) if order else None,
    )


def worker_order(stored: str | bytes | None) -> WorkerOrder | None:
    """Return what an operator wants of a worker."""
    return None if stored is None else _worker_order.decode(stored)


def _list_open_orders(stored: bytes) -> Raw:
    return tuple(found for found in map(order, _unpack(stored)) if not found.acknowledged)


def workers(answer: Raw) -> list[Worker]:
    """Return all that are not declared lost, in the order in which they came."""
    now = float(answer[0])
    found = [_worker(_hash(stored), id.decode(), held, now) for stored, id, held in answer[1:]]
    return sorted(found, key=lambda worker: (worker.started_at, worker.id))


def _hash(stored: Sequence[bytes]) -> dict[str, str]:
    cells = [cell.decode() for cell in stored]
    return dict(zip(cells[::2], cells[1::2], strict=True))


def _worker(fields: dict[str, str], id: str, running: int, now: float) -> Worker:
    draining = fields["draining"] == "1"
    state: WorkerState = "PROCESSING" if running else "IDLE"
    if draining:
        state = "DRAINING"
    if float(fields["lease_end"]) < now:
        state = "STALE"
    return Worker(
        id=id,
        node=fields["node"],
        pid=int(fields["pid"]),
        queues=_words.decode(fields["queues"]),
        slots=int(fields["slots"]),
        version=fields["version"],
        draining=draining,
        lease=float(fields["lease"]),
        keeps=fields["keeps"] == "1",
        handles=_handles.decode(fields["handles"]) if fields["handles"] else None,
        number=int(fields["number"]),
        started_at=float(fields["started_at"]),
        beat_at=float(fields["beat_at"]),
        running=running,
        state=state,
        order=worker_order(fields.get("order")),
    )
