"""Workers over HTTP, by the protocol of `docs/reference/worker-protocol.md`.."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace
from starlette.responses import Response

from stayer.core import codec, limits
from stayer.core.errors import BadInput, NotHeld, TooLarge, UnknownTask, UnknownWorker
from stayer.core.happening_json import cut_to_fit, read_happening, read_result
from stayer.core.happenings import Done, Fail, Happening, Interrupt, SetMeta, Snooze, Stop
from stayer.core.insight.statistics import MOST_BYTES, weight
from stayer.core.insight.statistics import fitted as fitted_statistics
from stayer.core.model import (
    JSON,
    RUNNING,
    Ending,
    LogPiece,
    Progress,
    Report,
    Task,
    Usage,
)
from stayer.core.units import format_size
from stayer.core.worker_model import Handles, Worker, WorkerOrder
from stayer.http.problem import Problem
from stayer.http.route import Answer, Call
from stayer.http.streams import check_still_allowed, while_there
from stayer.http.work_bodies import (
    BeatBody,
    Change,
    FailBody,
    ProgressBody,
    ReturnBody,
    Running,
    TakeBody,
    WaitQuery,
)
from stayer.service import upstream_results, work
from stayer.store import LOG_PIECE

T = TypeVar("T")

LOG_LIMIT_BYTES = 1_000_000
_STRANGER_WAIT_S = 1.0
"""How long whoever names no position of this server is kept waiting, if nothing happens."""
_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_BYTES = "application/octet-stream"
_FAULTY: tuple[Ending, ...] = (
    "error", "killed", "oom", "timeout", "silent", "expired", "environment", "cancelled",
)  # fmt: skip
DEFAULT_HANDLES = Handles(plain=True, names=("*",))


# The lease


def beat(call: Call) -> Answer:
    """Renew the lease of a worker."""
    body: BeatBody = call.body
    if body.protocol != work.PROTOCOL:
        raise BadInput(
            f"protocol {body.protocol} is not spoken here: this server speaks {work.PROTOCOL}"
        )
    handles = _handles(body.handles) or DEFAULT_HANDLES
    worker = Worker(
        id=_worker_id(call), node=body.node, pid=body.pid, queues=_queues(call, body.queues),
        slots=body.slots, version=body.version, draining=body.draining, lease=body.lease,
        keeps=body.keeps, handles=handles,
    )  # fmt: skip
    news = body.news if body.running is None else (*body.running, *body.news)
    reports = [report for each in news if (report := _report(each)) is not None]
    running = None
    if body.running is not None:
        running = list(dict.fromkeys((each.id, each.attempt) for each in body.running))
    arguments = (worker, _owner(call), body.number, body.nonce, reports, running)
    answer = _ours(call, lambda: call.service.remote_workers.beat(*arguments))
    call.service.timekeeper.start()
    found = answer.beat
    return Answer(
        {
            "now": found.now, "lease": worker.lease, "drain": found.drain,
            "watched": found.watched, "order": _order_for(call, found.order),
            "orders": msgspec.to_builtins(found.orders),
            "lost": [{"id": id, "attempt": attempt} for id, attempt in answer.lost],
            "away": list(found.away), "undelivered": list(found.undelivered),
            "proven": None if found.proven is None else list(found.proven),
        }
    )  # fmt: skip


def _order_for(call: Call, order: WorkerOrder | None) -> JSON:
    """Return what is wanted of the worker. Of queues that its token is not for, it would only be
    refused.
    """
    assert call.who is not None
    mine = call.who.queues
    if order is not None and order.queues is not None:
        order = replace(order, queues=tuple(each for each in order.queues if each in mine) or None)
    wanted: JSON = msgspec.to_builtins(order)
    return wanted


def _handles(given: Handles | None) -> Handles | None:
    if given is not None:
        limits.check_handles(given)
    return given


def _report(each: Running) -> Report | None:
    news = (each.paused, each.progress, each.usage, each.statistics)
    if not each.acknowledged and all(new is None for new in news):
        return None
    statistics = None if each.statistics is None else fitted_statistics(each.statistics)
    if statistics is not None and weight(statistics) > MOST_BYTES:
        raise BadInput(f"task {each.id}: its statistics are too large, at most {MOST_BYTES:,} fit")
    return Report(
        id=each.id, attempt=each.attempt, acknowledged=each.acknowledged, paused=each.paused,
        progress=_cut_progress(each.progress), usage=_bounded(each.usage),
        statistics=statistics,
    )  # fmt: skip


def _cut_progress(progress: Progress | None) -> Progress | None:
    if progress is None or progress.message is None:
        return progress
    return replace(progress, message=limits.cut(progress.message, limits.NOTE))


def _bounded(usage: Usage | None) -> Usage | None:
    """Bring figures to what stores can keep: for a wrong one, nobody should lose his lease."""
    if usage is None:
        return None
    figures = {name: min(max(each, 0), 2**53) for name, each in asdict(usage).items() if each}
    return Usage(**figures)


def leave(call: Call) -> Response:
    """Let a worker go."""
    worker = _own(call)
    call.service.remote_workers.leave(worker, call.body.number)
    return Response(status_code=204)


def show(call: Call) -> Answer:
    """Answer with the worker as the store knows it."""
    return Answer(codec.worker_record(call.service.remote_workers.get(_own(call))))


def about(call: Call) -> Answer:
    """Answer with what the token is for, and the workers that it introduced."""
    who = call.who
    assert who is not None
    mine = call.service.remote_workers.of(who.name)
    return Answer(
        {
            "protocol": work.PROTOCOL, "name": who.name, "queues": list(who.queues),
            "workers": [codec.worker_record(each) for each in mine],
        }
    )  # fmt: skip


# Waiting


async def take(call: Call) -> Answer:
    """Answer with tasks, waiting for the first if asked to."""
    body: TakeBody = call.body
    worker = _worker_id(call)
    queues, handles = await call.ask(_what_to_take, call, worker)
    given: list[Task] | None = await call.ask(
        call.service.remote_workers.find_given, worker, body.key
    )
    if given is None:
        reserve = _Take(call, worker, queues, handles)
        if body.wait > 0:
            given = await while_there(call, reserve.wait(body.wait))
        else:
            given = await reserve.once()
    return await call.ask(lambda: Answer({"tasks": [_shown(task) for task in given]}))


def _what_to_take(call: Call, worker: str) -> tuple[tuple[str, ...], Handles]:
    body: TakeBody = call.body
    _own(call)
    given = _handles(body.handles)
    if body.queues and given is not None:
        return _queues(call, body.queues), given
    known = call.service.remote_workers.get(worker)
    handles = given or known.handles or DEFAULT_HANDLES
    return _queues(call, body.queues or known.queues), handles


class _Take:
    """One request for tasks."""

    def __init__(self, call: Call, worker: str, queues: tuple[str, ...], handles: Handles) -> None:
        self._call = call
        self._worker = worker
        self._queues = queues
        self._handles = handles

    async def once(self) -> list[Task]:
        body: TakeBody = self._call.body
        return await self._call.ask(
            self._call.service.remote_workers.take, self._worker, body.key, self._queues,
            body.limit, self._handles,
        )  # fmt: skip

    async def wait(self, seconds: float) -> list[Task]:
        bells = self._call.service.bells
        deadline = time.monotonic() + seconds
        while True:
            since = await bells.listen(None, self._queues)  # before the look that it guards
            found = await self.once()
            if not found and (given := await self._given_elsewhere()) is not None:
                return given
            left = deadline - time.monotonic()
            if found or left <= 0 or bells.closed:
                return found
            await bells.wait(None, self._queues, since, left)
            check_still_allowed(self._call)

    async def _given_elsewhere(self) -> list[Task] | None:
        """Return what the same request was given, which may wait at another server, too."""
        given = self._call.service.remote_workers.find_given
        found: list[Task] | None = await self._call.ask(given, self._worker, self._call.body.key)
        return found


async def wait(call: Call) -> Answer:
    """Answer when there may be an order or a task, or when the time is over."""
    query: WaitQuery = call.query
    worker = _worker_id(call)
    with suppress(UnknownWorker):  # one that listens before it beats misses nothing
        await call.ask(_own, call)
    queues = _queues(call, query.queue) if query.queue else ()
    bells = call.service.bells
    position = await bells.listen(worker, queues)
    since, others = bells.read_position(query.since)
    # Who comes from other servers only may have missed something, but asks again and again.
    seconds = query.seconds if since is not None else min(query.seconds, _STRANGER_WAIT_S)
    if query.since is not None and since in (position, None) and seconds > 0:
        position = await while_there(call, bells.wait(worker, queues, position, seconds))
    if position == since:
        answer: JSON = {"news": False, "position": query.since}
    else:
        answer = {"news": query.since is not None, "position": ".".join((position, *others))}
    return Answer(answer, headers={"cache-control": "no-store"})


# Tasks


def holdings(call: Call) -> Answer:
    """Answer with what a worker holds."""
    return Answer({"tasks": [_shown(task) for task in call.store.holdings(_own(call))]})


def tasks(call: Call) -> Answer:
    """Answer with those of these tasks that a worker may see."""
    assert call.who is not None
    found = call.service.remote_workers.visible(_own(call), call.who.queues, call.query.id)
    return Answer({"tasks": [_shown(task) for task in found]})


def upstreams(call: Call) -> Answer:
    """Answer with what a task runs after."""
    found = call.store.upstreams([_visible(call).id])[0]
    return Answer({"after": list(found.after), "behind": list(found.behind)})


def inputs(call: Call) -> Answer:
    """Answer with the results of what a task runs after."""
    found = upstream_results.of(call.store, _visible(call))
    return Answer(upstream_results.results_json(found))


def get_checkpoint(call: Call) -> Response:
    """Answer with what was saved last."""
    task = _visible(call)
    found = call.store.checkpoint(task.id)
    if found is None:
        raise UnknownTask(f"task {task.id} has saved nothing")
    headers = {"stayer-attempt": str(found.attempt), "cache-control": "no-store"}
    return Response(found.data, headers=headers, media_type=_BYTES)


def start(call: Call) -> Answer:
    """Let an attempt begin."""
    return _task_answer(call, "start", call.body.pid)


def complete(call: Call) -> Answer:
    """Take the result of an attempt."""
    return _end(call, Done(read_result(call.body.result)), ("done",))


def fail(call: Call) -> Answer:
    """Take what went wrong with an attempt."""
    body: FailBody = call.body
    happening = Fail(body.error, body.ending, body.retry_after, body.final)
    return _end(call, cut_to_fit(happening), _FAULTY)


def give_back(call: Call) -> Answer:
    """Take an attempt back into the queue."""
    body: ReturnBody = call.body
    happening: Happening = Interrupt(body.note)
    if body.delay:
        happening = Snooze(body.delay, body.note or "returned by its worker")
    return _end(call, happening, ("interrupted", "snoozed", "cancelled"))


def cancelled(call: Call) -> Answer:
    """Take that an attempt was stopped on demand."""
    task = _held(call)
    if not task.cancel_wanted and task.state in RUNNING:
        raise BadInput(f"nobody has cancelled task {task.id}: use `return` or `fail`")
    return _end(call, Stop(), ("cancelled",))


def progress(call: Call) -> Response:
    """Take how far an attempt is."""
    body: ProgressBody = call.body
    return _tell(call, progress=Progress(body.done, body.total, body.message, None, body.remaining))


def set_meta(call: Call) -> Response:
    """Set fields of the user's own."""
    _end(call, cut_to_fit(SetMeta(call.body.meta, by_task=True)), ())
    return Response(status_code=204)


def log(call: Call) -> Response:
    """Take what an attempt printed."""
    data: bytes = call.body
    if len(data) > LOG_LIMIT_BYTES:
        raise TooLarge(
            f"a piece of log may have {format_size(LOG_LIMIT_BYTES)}: send it in several"
        )
    start = call.query.start
    pieces = (
        LogPiece(start + at, data[at : at + LOG_PIECE]) for at in range(0, len(data), LOG_PIECE)
    )
    return _tell(call, log=tuple(pieces))


def checkpoint(call: Call) -> Response:
    """Take what an attempt saved."""
    data: bytes = call.body
    if len(data) > codec.CHECKPOINT_LIMIT:
        raise TooLarge(f"a checkpoint may have {format_size(codec.CHECKPOINT_LIMIT)}: save less")
    return _tell(call, checkpoint=data)


def changes(call: Call) -> Answer:
    """Take what happened to several attempts; what the worker knows of them must still hold."""
    worker = _own(call)
    told = [_reported_change(each) for each in call.body.changes]
    assert call.who is not None
    answers = call.service.remote_workers.commit(worker, told, call.who.queues)
    return Answer({"tasks": [None if task is None else _shown(task) for task in answers]})


def _reported_change(change: Change) -> work.ReportedChange:
    if change.state is not None and change.state not in RUNNING:
        raise BadInput(f"state: a worker holds what is {' or '.join(RUNNING)}")
    try:
        saved = None if change.checkpoint is None else base64.b64decode(change.checkpoint)
    except ValueError:
        raise BadInput("checkpoint: write its bytes in base64") from None
    return work.ReportedChange(
        change.id, change.attempt, read_happening(change.happening), change.state,
        change.last_order, change.ago, change.paused, saved,
    )  # fmt: skip


def _tell(call: Call, **news: Any) -> Response:
    worker = _own(call)
    report = Report(id=call.path["id"], attempt=call.query.attempt, **news)
    call.service.remote_workers.report(worker, report)
    return Response(status_code=204)


def _end(call: Call, happening: Happening, known: Sequence[Ending]) -> Answer:
    assert call.who is not None
    return _task_answer(call, "settle", happening, known, call.who.queues)


def _task_answer(call: Call, verb: str, *arguments: Any) -> Answer:
    worker = _own(call)
    do = getattr(call.service.remote_workers, verb)
    return Answer(_shown(do(worker, call.path["id"], call.query.attempt, *arguments)))


def _held(call: Call) -> Task:
    worker = _own(call)
    [task] = call.store.get([call.path["id"]])
    if task is None:
        raise UnknownTask(f"no task {call.path['id']!r}")
    if task.state in RUNNING and not work.is_held(task, worker, call.query.attempt):
        raise NotHeld(f"task {task.id} is not held by attempt {call.query.attempt} of {worker}")
    return task


def _visible(call: Call) -> Task:
    assert call.who is not None
    id = call.path["id"]
    found = call.service.remote_workers.visible(_own(call), call.who.queues, [id])
    if not found:
        raise UnknownTask(f"no task {id!r} in the queues of this token")
    return found[0]


def _shown(task: Task) -> dict[str, JSON]:
    """Return a task as its worker sees it: with what its next change has to name."""
    return {**codec.record(task), "last_order": task.last_order, "losses": task.losses}


# Who asks


def _own(call: Call) -> str:
    """Return the worker that asks; Problem if it is another token's."""
    worker = _worker_id(call)
    _ours(call, lambda: call.service.remote_workers.check(worker, _owner(call)))
    return worker


def _ours(call: Call, ask: Callable[[], T]) -> T:
    try:
        return ask()
    except work.NotYours:
        raise Problem(
            "forbidden",
            f"the worker id {call.path['worker']!r} belongs to another token: choose another id",
        ) from None


def _owner(call: Call) -> str:
    assert call.who is not None
    return call.who.name


def _worker_id(call: Call) -> str:
    worker = call.path["worker"]
    if not _ID.fullmatch(worker):
        raise BadInput(
            f"worker {worker[:120]!r}: an id has 1 to 100 letters, digits, '.', '_', ':' and '-'"
        )
    return worker


def _queues(call: Call, named: Sequence[str]) -> tuple[str, ...]:
    """Return the queues that are meant; Problem if the token is not for one of them."""
    assert call.who is not None
    mine = call.who.queues
    if others := [name for name in named if name not in mine]:
        raise Problem(
            "forbidden",
            f"the token {call.who.name} is not for queue {others[0]}: it may take tasks from "
            f"{', '.join(mine)}",
        )
    return tuple(dict.fromkeys(named)) or mine
