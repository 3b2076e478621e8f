"""The contract over HTTP.

Everything here is a request that any other program could make: see `stayer.http.routes`. For the
verbs of an operator see `operator`, for what workers need see `work`. What time brings, who is dead
and what is told to hooks is for the server to see to.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Any, Unpack
from urllib.parse import urlsplit

import msgspec

from stayer.core import ids, units
from stayer.core.availability import Reach
from stayer.core.errors import (
    BadConfig,
    BadInput,
    Refused,
    StoreError,
    StoreUnusable,
    UnknownFile,
    UnknownFlow,
    UnknownSchedule,
    UnknownTask,
)
from stayer.core.filters import PARAMETERS
from stayer.core.flows.model import FlowInfo, FlowPage, NewFlow, Upstreams
from stayer.core.insight.failures import Failures
from stayer.core.insight.health import Finding
from stayer.core.insight.queue_stats import Figures
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import (
    JSON,
    Attempt,
    Change,
    Checkpoint,
    Event,
    Filter,
    LogPiece,
    NewTask,
    Page,
    Report,
    State,
    Statistics,
    Submitted,
    Task,
    Usage,
)
from stayer.core.notify.notices import NoticePage, NoticeState
from stayer.core.ordering import rate_limit
from stayer.core.queue_model import QueueInfo, QueueSettings
from stayer.core.schedules import parse
from stayer.core.schedules.model import Schedule
from stayer.core.submit import checks
from stayer.core.worker_model import Beat, Handles, Worker, WorkerOrder
from stayer.store import Waiter
from stayer.stores.remote import records
from stayer.stores.remote.connection import (
    ANSWER_TIMEOUT_S,
    Address,
    Connection,
    NotAllowed,
    Query,
    TooManyWait,
    path_of,
)
from stayer.stores.remote.left_to_server import LeftToServer
from stayer.stores.remote.operator import RemoteOperator
from stayer.stores.remote.work import RemoteWork

_IDS_A_URL = 50
"""How many ids go into one URL."""
_PAGE = 1000
"""How many records a page may have."""
_SUBMIT_TASKS, _SUBMIT_BYTES = 1000, 8_000_000
"""What goes into one submission."""
_WATCH_S = 30.0
"""How long one request waits for events."""
_POLL_S = 1.0
"""Between two looks, where the server lets no more requests wait."""
_EARLIEST, _LATEST = 1e8, 253402300799.0
"""Moments that can't be taken for a duration, nor for no moment at all."""


class PlainHttpWarning(UserWarning):
    """A token is sent over plain http to another machine."""


def open_server(url: str, token: str | None) -> HttpStore:
    """Open the store behind the server at `http://host:port/prefix`."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise BadConfig(
            f"store {parts.scheme}://…@{parts.hostname}: a URL is no place for a secret, it is "
            "shown and logged: give the token as STAYER_TOKEN"
        )
    try:
        port = parts.port
    except ValueError:
        port = -1
    if not parts.hostname or port == -1 or parts.query or parts.fragment:
        raise BadConfig(f"store {url!r}: write for example http://localhost:8787")
    plain = url.rstrip("/")
    prefix = parts.path.rstrip("/")
    if token and parts.scheme == "http" and not _is_here(parts.hostname):
        warnings.warn(
            f"{plain} is not encrypted: the token can be read on the way. Use https",
            PlainHttpWarning,
            stacklevel=3,
        )
    address = Address(plain, parts.scheme == "https", parts.hostname, port, prefix)
    return HttpStore(plain, Connection(address, token))


def _is_here(host: str) -> bool:
    """Tell whether what is sent to this host stays on this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


class HttpStore(LeftToServer):
    """A store that a server has."""

    a_turn = 500
    in_parts = True  # as far as anybody can tell: the server's may be

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self.remote_operator = self._remote_operator = RemoteOperator(connection)
        self._work = RemoteWork(url, connection)
        self._ask = connection.ask
        self._connection = connection
        self._ids_are_below_queues = False

    def setup(self) -> None:
        self._clock()

    def close(self) -> None:
        self._connection.close()

    def now(self) -> float:
        return float(self._clock()["epoch"])

    def identity(self) -> str:
        return str(self._clock()["store"])

    def last_event(self) -> int:
        return int(self._clock()["last_event"])

    def _clock(self) -> dict[str, Any]:
        found = self._ask("GET", "/v1/clock")
        if not isinstance(found, dict) or "epoch" not in found:
            raise StoreUnusable(f"{self.url} is no server of Stayer's: fix the URL")
        return found

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        answers: list[Submitted] = []
        portions = list(_portions(tasks))
        if len(portions) > 1 and any(new.after for new in tasks):
            raise BadInput(
                f"{len(tasks):,} tasks that run after others are too many for one request: submit "
                "them as a flow"
            )
        for portion in portions:
            sent = tasks[len(answers) : len(answers) + len(portion)]
            answer = self._send(portion, sent)
            records.check_refused(self.url, answer["tasks"])
            answers += map(records.read_submitted, answer["tasks"])
        return answers

    def _send(self, portion: list[dict[str, JSON]], tasks: Sequence[NewTask]) -> Any:
        """Submit these, as they are written. A token for some queues may choose ids below them
        only: the first refusal tells that it is one, and nothing was accepted with it.
        """
        drawn = [number for number, new in enumerate(tasks) if new.generated]
        for below in (True,) if self._ids_are_below_queues else (False, True):
            if below:
                for number in drawn:
                    new = tasks[number]
                    portion[number]["id"] = ids.below_queue(new.queue, new.id)
            try:
                answer = self._ask("POST", "/v1/tasks", body={"tasks": list[JSON](portion)})
            except NotAllowed:
                if below or not drawn:
                    raise
            except StoreError as error:
                error.drawn = tuple(str(portion[number]["id"]) for number in drawn)
                raise
            else:
                self._ids_are_below_queues = below
                return answer
        raise AssertionError  # the second of them returns or raises

    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        body = records.flow_submission(flow, tasks)
        return bool(self._ask("POST", "/v1/flows", body=body)["fresh"])

    def work_as(self, worker: str) -> None:
        self._work.worker = worker

    # Files

    def put_file(self, sha256: str, data: bytes | None) -> bool:
        try:
            self._connection.ask_bytes("PUT", path_of("files", sha256), data)
        except UnknownFile:
            return False
        return True

    def get_file(self, sha256: str) -> bytes | None:
        try:
            return self._connection.ask_bytes("GET", path_of("files", sha256))
        except UnknownFile:
            return None

    def old_files(self, before: float, limit: int) -> list[str]:
        return []  # the server sees to them

    def drop_files(self, files: Sequence[str], before: float) -> None:
        return

    # Reading

    def get(self, ids: Sequence[str]) -> list[Task | None]:
        if self._work.worker is not None:
            return self._work.get(ids)
        found: dict[str, Task] = {}
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), _IDS_A_URL):
            some = wanted[start : start + _IDS_A_URL]
            answer = self._ask("GET", "/v1/tasks", {"id": some, "limit": len(some)})
            found.update((shown["id"], records.task(shown)) for shown in answer["tasks"])
        return [found.get(id) for id in ids]

    def find(self, filter: Filter, cursor: str | None, limit: int) -> Page:
        query = {parameter: getattr(filter, name) for parameter, name in PARAMETERS.items()}
        query |= {"since": _moment(filter.since), "until": _moment(filter.until)}
        tasks: list[Task] = []
        while True:
            page = {"cursor": cursor, "limit": min(_PAGE, limit - len(tasks))}
            answer = self._ask("GET", "/v1/tasks", {**query, **page})
            tasks += map(records.task, answer["tasks"])
            cursor = answer["next"]
            if cursor is None or len(tasks) >= limit:
                return Page(tuple(tasks), cursor)

    def flows(self, cursor: str | None, limit: int) -> FlowPage:
        answer = self._ask("GET", "/v1/flows", {"cursor": cursor, "limit": min(limit, _PAGE)})
        return FlowPage(tuple(map(records.flow, answer["flows"])), answer["next"])

    def flow(self, id: str) -> FlowInfo | None:
        if not id:
            return None
        try:
            return records.flow(self._ask("GET", path_of("flows", id)))
        except UnknownFlow:
            return None

    def upstreams(self, ids: Sequence[str]) -> list[Upstreams]:
        if self._work.worker is not None:
            return self._work.upstreams(ids)
        found = (self._of_task(id, "upstreams", {"limit": 0}) for id in ids)
        return [Upstreams(tuple(of.get("after", ())), tuple(of.get("behind", ()))) for of in found]

    def waits(self, id: str, limit: int) -> tuple[list[str], int]:
        found = self._of_task(id, "upstreams", {"limit": min(limit, _PAGE)})
        return list(found.get("waits", ())), int(found.get("waiting_for", 0))

    def peek(self, queue: str, limit: int) -> list[Task]:
        answer = self._ask("GET", path_of("queues", queue, "peek"), {"limit": min(limit, _PAGE)})
        return [records.task(shown) for shown in answer["tasks"]]

    def ahead(self, id: str) -> int:
        found = self._of_task(id, "explain").get("ahead")
        return int(found or 0)

    def durations(self, queue: str, limit: int) -> list[tuple[str, float]]:
        page = self.find(Filter(queues=(queue,), states=("complete",)), None, limit)
        return [
            (task.kind, task.finished_at - task.started_at)
            for task in page.tasks
            if task.started_at is not None and task.finished_at is not None
        ]

    def failures(self, queues: Sequence[str], limit: int) -> Failures:
        query: Query = {"queue": tuple(queues), "limit": min(limit, _PAGE)}
        return records.failures(self._ask("GET", "/v1/failures", query))

    def attempts(self, id: str) -> list[Attempt]:
        found = self._of_task(id, "attempts")
        return [records.read(Attempt, shown) for shown in found.get("attempts", ())]

    def events(self, id: str) -> list[Event]:
        found = self._of_task(id, "events")
        return [records.read(Event, shown) for shown in found.get("events", ())]

    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        if attempt < 1:
            return []
        query = {"attempt": attempt, "start": start, "limit": max(1, min(limit, 1_000_000))}
        found = self._of_task(id, "log/pieces", query)
        return [records.read(LogPiece, shown) for shown in found.get("pieces", ())]

    def usage(self, id: str, attempt: int) -> list[Usage]:
        if attempt < 1:
            return []
        found = self._of_task(id, "usage", {"attempt": attempt})
        return [records.read(Usage, shown) for shown in found.get("usage", ())]

    def statistics(self, id: str, attempt: int) -> Statistics | None:
        if attempt < 1:
            return None
        found = self._of_task(id, "statistics", {"attempt": attempt})
        return records.read(Statistics, found) if found.get("at") else None

    def checkpoint(self, id: str) -> Checkpoint | None:
        found = self._of_task(id, "checkpoint")
        return records.read(Checkpoint, found) if found else None

    def _of_task(self, id: str, what: str, query: dict[str, int] | None = None) -> dict[str, Any]:
        """Read what belongs to a task; nothing if there is none, as other stores have it."""
        try:
            found: dict[str, Any] = self._ask("GET", path_of("tasks", id, what), query)
        except (UnknownTask, Refused, BadInput):
            return {}
        return found

    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, min(_WATCH_S, deadline - time.monotonic()))
            query: Query = {"since": since, "wait": f"{left:.3f}", "limit": min(limit, 500)}
            try:
                answer = self._ask("GET", "/v1/events", query, patience=ANSWER_TIMEOUT_S + left)
            except TooManyWait:
                answer = self._ask("GET", "/v1/events", {**query, "wait": "0"})
                if not answer["events"]:
                    time.sleep(min(_POLL_S, left))
            found = [records.read(Event, shown) for shown in answer["events"]]
            if found or time.monotonic() >= deadline:
                return found

    # Queues, workers and history

    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        answer = self._ask("GET", "/v1/queues", {"name": tuple(names)})
        return [records.queue(shown) for shown in answer["queues"]]

    def reach(self, queues: Sequence[str]) -> Reach:
        query: Query = {"name": tuple(queues), "partial": True}
        answer = self._ask("GET", "/v1/queues", query)
        return Reach(tuple(each["name"] for each in answer["queues"]), answer["away"])

    def workers_of(self, queues: Sequence[str]) -> list[Worker]:
        try:
            answer = self._ask("GET", "/v1/workers", {"partial": True})
        except NotAllowed as refusal:
            return self._own_workers(refusal)
        return [records.read(Worker, shown) for shown in answer["workers"]]

    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        wanted: dict[str, Any] = dict(settings)
        if rate := settings.get("rate"):
            wanted["rate"] = rate_limit.format_rate(rate)
        return records.queue(self._ask("PATCH", path_of("queues", name), body=wanted))

    def figures(
        self, since: float, until: float, step: int, queues: Sequence[str] | None
    ) -> list[Figures]:
        query: Query = {
            "since": _moment(since), "until": _moment(until), "step": f"{step}s",
            "queue": tuple(queues or ()), "each": queues is not None,
        }  # fmt: skip
        history = self._ask("GET", "/v1/stats", query)["history"]
        return [
            records.read(Figures, {**shown, "queue": shown["queue"] or ""})
            for shown in history["points"]
        ]

    def drop_queue(self, name: str, limit: int) -> int:
        answer = self._ask("DELETE", path_of("queues", name), {"force": True})
        return int(answer["left"])

    def purge(
        self, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
    ) -> list[str]:
        if ids is not None:
            return [id for id in ids[:limit] if self._delete(id)]
        body: JSON = {
            "before": _moment(before), "states": list(states), "limit": min(limit, _PAGE),
        }  # fmt: skip
        return [str(id) for id in self._ask("POST", "/v1/tasks/purge", body=body)["purged"]]

    def _delete(self, id: str) -> bool:
        try:
            self._ask("DELETE", path_of("tasks", id))
        except NotAllowed:
            raise
        except (Refused, UnknownTask):
            return False
        return True

    def workers(self) -> list[Worker]:
        try:
            answer = self._ask("GET", "/v1/workers")
        except NotAllowed as refusal:
            return self._own_workers(refusal)
        return [records.read(Worker, shown) for shown in answer["workers"]]

    def lost_workers(self) -> list[LostWorker]:
        try:
            answer = self._ask("GET", "/v1/workers", {"partial": True})
        except NotAllowed:
            return []  # a token of a worker knows its own
        return [records.read(LostWorker, shown) for shown in answer.get("down", ())]

    def _own_workers(self, refusal: NotAllowed) -> list[Worker]:
        """List those that the token has introduced, if it is one of a worker."""
        try:
            return self._work.workers()
        except NotAllowed:
            raise refusal from None

    def check(self) -> list[Finding]:
        """Say what a token of a worker is for."""
        who = self._ask("GET", "/v1/session")
        if who["role"] != "work":
            return []
        queues = ", ".join(self._ask("GET", "/v1/work")["queues"])
        return [Finding("token", "ok", f"{who['name']} takes tasks of {queues}")]

    def drain_worker(self, worker: str) -> Worker:
        return records.read(Worker, self._ask("POST", path_of("workers", worker, "drain")))

    def order_worker(self, worker: str, order: WorkerOrder) -> Worker | None:
        raise StoreUnusable(f"{self.url} is a server, which orders workers itself")

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        body: JSON = {"workers": list(workers), "seconds": min(seconds, 300.0)}
        self._ask("POST", "/v1/workers/attend", body=body)

    # Schedules

    def schedules(self, names: Sequence[str] = ()) -> list[Schedule]:
        answer = self._ask("GET", "/v1/schedules", {"name": tuple(names)})
        return [records.schedule(shown) for shown in answer["schedules"]]

    def put_schedule(self, schedule: Schedule, seen: float | None = None) -> Schedule:
        body = parse.schedule_json(schedule)
        query = {"replace": True, "seen": None if seen is None else units.rfc3339(seen)}
        return records.schedule(self._ask("POST", "/v1/schedules", query, body=body))

    def drop_schedule(self, name: str) -> bool:
        try:
            self._ask("DELETE", path_of("schedules", name))
        except UnknownSchedule:
            return False
        return True

    # Notices

    def notices(
        self, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
    ) -> NoticePage:
        query = {"task": task, "state": state, "cursor": cursor, "limit": min(limit, _PAGE)}
        answer = self._ask("GET", "/v1/notices", query)
        return NoticePage(tuple(map(records.notice, answer["notices"])), answer["next"])

    def retry_notices(self, ids: Sequence[str]) -> int:
        return self._each_notice("retry", ids)

    def drop_notices(self, ids: Sequence[str]) -> int:
        return self._each_notice("drop", ids)

    def _each_notice(self, verb: str, ids: Sequence[str]) -> int:
        number = 0
        for start in range(0, len(ids), _PAGE):
            body: JSON = {"ids": [*ids[start : start + _PAGE]]}
            number += int(self._ask("POST", f"/v1/notices/{verb}", body=body)["notices"])
        return number

    # Workers

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        return self._work.reserve(worker, queues, limit, handles)

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        return self._work.commit(changes)

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        return self._work.beat(worker, number, nonce, reports)

    def report(self, worker: str, reports: Sequence[Report]) -> list[bool]:
        return self._work.report(worker, reports)

    def holdings(self, worker: str, queues: Sequence[str] = ()) -> list[Task]:
        return self._work.holdings(worker, queues)

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        return self._work.waiter(worker, queues)

    def drop_worker(
        self, worker: str, number: int | None = None, is_lost: bool = False
    ) -> list[Task]:
        if number is None:
            self._remote_operator.drop_worker(worker)
            return []
        return self._work.drop_worker(worker, number)


def _portions(tasks: Sequence[NewTask]) -> Iterator[list[dict[str, JSON]]]:
    """Cut submissions into as many as one request may bring."""
    portion: list[dict[str, JSON]] = []
    size = 0
    for shown in map(checks.submission_json, tasks):
        length = len(msgspec.json.encode(shown))
        if portion and (len(portion) >= _SUBMIT_TASKS or size + length > _SUBMIT_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(shown)
        size += length
    if portion:
        yield portion


def _moment(at: float | None) -> str | None:
    return None if at is None else f"{min(_LATEST, max(_EARLIEST, at)):.6f}"
