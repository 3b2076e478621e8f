"""Who is registered as a worker, what each holds, and how one is drained or declared lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import msgspec

from stayer.core.errors import LeaseLost, Refused, UnknownWorker
from stayer.core.liveness import lost_workers as lost
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import Task
from stayer.core.units import format_duration
from stayer.core.worker_model import Worker, WorkerOrder
from stayer.store.base import SharedName
from stayer.stores.redis import record
from stayer.stores.redis import workers as decode
from stayer.stores.redis.connection.server import ScriptRefusal, Server
from stayer.stores.redis.keys import key as place


def workers(server: Server) -> list[Worker]:
    """List all that are not declared lost."""
    return decode.workers(server.run("workers"))


def lost_workers(server: Server) -> list[LostWorker]:
    """List those that were declared lost, the newest first."""
    return lost.decode(server.run("lost_workers"))


def note_lost_tasks(server: Server, worker: str, tasks: Sequence[Task]) -> None:
    """Note what a lost worker held, where its tasks are kept elsewhere."""
    server.run("note_lost_tasks", worker, *(task.id for task in tasks))


def holdings(server: Server, worker: str, queues: Sequence[str] = ()) -> list[Task]:
    """List what the worker holds in these queues; none named: in all."""
    held = _oldest_first(server.run("holdings", worker))
    return [task for task in held if not queues or task.queue in queues]


def attend(server: Server, workers: Sequence[str], seconds: float) -> None:
    """Let these workers know that somebody watches what they run."""
    if workers:
        server.run("attend", repr(float(seconds)), *workers)


def record_once(server: Server, key: str, value: str, seconds: float) -> str:
    """Record a value, unless there is one."""
    there: bytes = server.run("record_once", key, value, max(1, int(1000 * seconds)))
    return there.decode()


def read_record(server: Server, key: str) -> str | None:
    """Read what was recorded, if its time is not over."""
    there: bytes | None = server.ask("GET", place("once", server.address.prefix, key=key))
    return None if there is None else there.decode()


def read_shared(server: Server, name: SharedName) -> str | None:
    """Read a value that servers share."""
    there: bytes | None = server.ask("HGET", place("meta", server.address.prefix), name)
    return None if there is None else there.decode()


def put_shared(server: Server, name: SharedName, value: str, known: str | None) -> bool:
    """Replace a value that servers share, unless somebody else was quicker."""
    return bool(server.run("put_shared", name, value, known or "") == 1)


def declare_lost(server: Server, judge: str | None, silent: dict[str, int]) -> list[Task]:
    """Mark silent workers as dead; the answer is what dead ones still hold."""
    wanted = record.pack([part for pair in silent.items() for part in pair])
    try:
        given = ("" if judge is None else judge, wanted, lost.by_judge(judge))
        return _oldest_first(server.run("declare_lost", *given))
    except ScriptRefusal:
        raise LeaseLost(
            f"worker {judge} is not registered, or was declared lost: it can't judge"
        ) from None


def drain_worker(server: Server, worker: str) -> Worker:
    """Ask a worker to finish what it runs and take no more."""
    try:
        [found] = decode.workers(server.run("drain_worker", worker))
    except ScriptRefusal as refusal:
        _refuse(worker, refusal)
    return found


def order_worker(server: Server, worker: str, order: WorkerOrder) -> Worker | None:
    """Give a worker an order, unless it has been given another one meanwhile."""
    ends_at = "" if order.ends_at is None else repr(float(order.ends_at))
    given = (msgspec.json.encode(order), order.number, int(order.grace is not None), ends_at)
    try:
        found = decode.workers(server.run("order_worker", worker, *given))
    except ScriptRefusal as refusal:
        _refuse(worker, refusal)
    return found[0] if found else None


def drop_worker(
    server: Server, worker: str, number: int | None = None, is_lost: bool = False
) -> list[Task]:
    """Declare a stale worker lost, or let one take its leave; the answer is what it held."""
    by = lost.BY_SERVER if is_lost else lost.BY_OPERATOR if number is None else ""
    given = "" if number is None else number
    try:
        return _oldest_first(server.run("drop_worker", worker, given, by))
    except ScriptRefusal as refusal:
        _refuse(worker, refusal)


def _oldest_first(answer: record.Raw) -> list[Task]:
    """Read tasks in the order in which they came into the store."""
    values, kept_apart = answer
    numbers = [record.created_and_seq(value)[1] for value in values]
    found = zip(numbers, record.tasks(values, kept_apart), strict=True)
    return [task for _, task in sorted(found, key=lambda each: each[0])]


def _refuse(worker: str, refusal: ScriptRefusal) -> NoReturn:
    match refusal.word:
        case "UNKNOWN":
            raise UnknownWorker(
                f"no worker {worker!r}: `stayer workers` lists those there are"
            ) from None
        case "LEASELOST":
            raise LeaseLost(
                f"worker {worker} is not this one any more: its identity is used elsewhere"
            ) from None
        case _:
            left = format_duration(float(refusal.details))
            raise Refused(
                f"worker {worker} is alive (its lease ends in {left}): only a stale one can be "
                "dropped. Stop it first"
            ) from None
