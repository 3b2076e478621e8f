"""What workers need of the contract, by the worker protocol: see
`docs/reference/worker-protocol.md`.

The server decides what becomes of a task. So a change travels as what happened, and as what the
worker knew; what time brings, and who is dead, is for the server to see to.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from stayer.core.decoding import convert
from stayer.core.errors import NotHeld, StoreUnreachable, StoreUnusable
from stayer.core.flows.model import Upstreams
from stayer.core.model import JSON, Change, Report, Task
from stayer.core.worker_model import Beat, Handles, Orders, Worker
from stayer.stores.remote import records
from stayer.stores.remote.changes import Changes
from stayer.stores.remote.connection import ANSWER_TIMEOUT_S, Connection, path_of
from stayer.stores.remote.uploads import Uploads
from stayer.stores.remote.waiter import RemoteWaiter

_IDS_A_URL = 50
_BEFORE_END_S = 10.0
"""How long the end of an attempt waits for its log; then it is tried again later."""
_BEAT_S, _BEAT_SHARE = (0.5, ANSWER_TIMEOUT_S), 1 / 8
"""How long a beat waits for its answer, at least and at most, and of the lease: one that gets lost
leaves time for others.
"""
_FLUSH_S, _FLUSH_SHARE = 2.0, 1 / 32
"""How long a beat waits for what goes beside it, if that is quick: of the lease, at most."""
_LIMIT = 1000


class RemoteWork:
    """The worker's part of a store that a server has."""

    def __init__(self, url: str, connection: Connection) -> None:
        self._url = url
        self._ask = connection.ask
        self._connection = connection
        self._uploads = Uploads(connection)
        self.worker: str | None = None
        """Who beats here."""
        self._is_slow = False
        """Whether the server did not answer the last beat in time: then there is twice the time, or
        one that is always as slow would never be heard.
        """

    # The lease

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """Send one request, whatever the worker runs; logs and checkpoints go beside it."""
        in_time = min(max(_BEAT_S[0], worker.lease * _BEAT_SHARE), _BEAT_S[1])
        began = time.monotonic()
        try:
            shown = self._ask(
                "POST",
                path_of("work", worker.id, "beat"),
                body=_beat_json(worker, number, nonce, reports),
                patience=2 * in_time if self._is_slow else in_time,
            )
        except StoreUnreachable:
            self._is_slow = True
            raise
        self._is_slow = time.monotonic() - began > in_time
        self.worker = worker.id
        answer = convert(
            {
                name: shown[name]
                for name in ("now", "drain", "order", "watched", "away", "undelivered", "proven")
                if name in shown
            },
            Beat,
        )
        orders = tuple(convert(each, Orders) for each in shown["orders"])
        undelivered = [*answer.undelivered]
        deadline = time.monotonic() + min(_FLUSH_S, worker.lease * _FLUSH_SHARE)
        for report in reports:
            if not self._uploads.add(worker.id, report, deadline - time.monotonic()):
                undelivered.append(report.id)
        self._uploads.wait(None, deadline - time.monotonic())
        return msgspec.structs.replace(answer, orders=orders, undelivered=tuple(undelivered))

    def report(self, worker: str, reports: Sequence[Report]) -> list[bool]:
        """Send news between beats, and wait for it to arrive."""
        return [self._report(worker, report) for report in reports]

    def _report(self, worker: str, report: Report) -> bool:
        path = self._held(worker, report.id, "progress")
        try:
            if report.progress is not None:
                body = msgspec.to_builtins(report.progress)
                self._ask("POST", path, {"attempt": report.attempt}, body=body)
        except NotHeld:
            return False
        self._uploads.add(worker, report, _BEFORE_END_S)
        self._wait_for_uploads({(report.id, report.attempt)})
        return True

    def drop_worker(self, worker: str, number: int) -> list[Task]:
        """Take leave: the server decides what becomes of the rest."""
        self._ask("POST", path_of("work", worker, "leave"), body={"number": number})
        return []

    def workers(self) -> list[Worker]:
        """List those that this token has introduced."""
        shown = self._ask("GET", "/v1/work")["workers"]
        return [records.read(Worker, each) for each in shown]

    def waiter(self, worker: str | None, queues: Sequence[str]) -> RemoteWaiter:
        """Listen for a worker that has beaten."""
        asking = worker or self.worker
        if asking is None:
            raise StoreUnusable(f"{self._url} is a server: a worker has to beat before it waits")
        return RemoteWaiter(self._connection, asking, queues)

    # Tasks

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        """Ask for tasks; once more with the same key if the answer got lost."""
        if limit <= 0:
            return []
        body: JSON = {
            "key": secrets.token_hex(16), "queues": list(queues), "limit": min(limit, _LIMIT),
            "handles": msgspec.to_builtins(handles),
        }  # fmt: skip
        path = path_of("work", worker, "take")
        try:
            answer = self._ask("POST", path, body=body)
        except StoreUnreachable as error:
            if not error.unsure:
                raise
            answer = self._ask("POST", path, body=body)
        return [records.task(shown) for shown in answer["tasks"]]

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """Tell what happened, when the logs have arrived."""
        self._wait_for_uploads({(change.id, change.attempt) for change in changes})
        return Changes(self._url, self._connection).tell(changes)

    def holdings(self, worker: str, queues: Sequence[str]) -> list[Task]:
        """List what the worker holds."""
        shown = self._ask("GET", path_of("work", worker, "holdings"))["tasks"]
        held = [records.task(each) for each in shown]
        return [task for task in held if not queues or task.queue in queues]

    def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Read tasks as a worker may see them."""
        assert self.worker is not None
        found: dict[str, Task] = {}
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), _IDS_A_URL):
            query = {"id": wanted[start : start + _IDS_A_URL]}
            shown = self._ask("GET", path_of("work", self.worker, "tasks"), query)["tasks"]
            found.update((each["id"], records.task(each)) for each in shown)
        return [found.get(id) for id in ids]

    def upstreams(self, ids: Sequence[str]) -> list[Upstreams]:
        """Tell what tasks run after."""
        assert self.worker is not None
        found = (self._ask("GET", self._held(self.worker, id, "upstreams")) for id in ids)
        return [Upstreams(tuple(each["after"]), tuple(each["behind"])) for each in found]

    def _held(self, worker: str, id: str, verb: str) -> str:
        return path_of("work", worker, "tasks", quote(id, safe=""), verb)

    def _wait_for_uploads(self, keys: set[tuple[str, int]]) -> None:
        if not self._uploads.wait(keys, _BEFORE_END_S):
            raise StoreUnreachable(
                f"{self._url}: logs or checkpoints are still on their way: trying again"
            )


def _beat_json(worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> JSON:
    news: list[JSON] = []
    for report in reports:
        told: dict[str, JSON] = {"id": report.id, "attempt": report.attempt}
        if report.acknowledged:
            told["acknowledged"] = report.acknowledged
        if report.paused is not None:
            told["paused"] = report.paused
        if report.progress is not None:
            told["progress"] = msgspec.to_builtins(report.progress)
        if report.usage is not None:
            told["usage"] = msgspec.to_builtins(report.usage)
        if report.statistics is not None:
            told["statistics"] = msgspec.to_builtins(report.statistics)
        if len(told) > 2:
            news.append(told)
    return {
        "protocol": 1, "number": number, "nonce": nonce, "lease": worker.lease,
        "queues": list(worker.queues), "slots": worker.slots, "node": worker.node,
        "pid": worker.pid, "version": worker.version, "draining": worker.draining,
        "keeps": worker.keeps,
        "handles": None if worker.handles is None else msgspec.to_builtins(worker.handles),
        "news": news,
    }  # fmt: skip
