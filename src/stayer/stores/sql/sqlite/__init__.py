"""SQLite: one file, one machine, nothing to install."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar, Unpack

import msgspec

from stayer.config import default_store
from stayer.core.errors import (
    BadConfig,
    BadInput,
    Refused,
    StayerError,
    StoreError,
    StoreUnusable,
)
from stayer.core.flows.model import FlowInfo, FlowPage, NewFlow, Upstreams
from stayer.core.insight.failures import Failures
from stayer.core.insight.health import Finding
from stayer.core.insight.queue_stats import Figures
from stayer.core.model import (
    Attempt,
    Beat,
    Change,
    Checkpoint,
    Event,
    Filter,
    Handles,
    Kept,
    LogPiece,
    NewTask,
    Page,
    QueueInfo,
    QueueSettings,
    Report,
    State,
    Submitted,
    Task,
    Usage,
    Worker,
)
from stayer.core.notify.notices import Delivery, Notice, NoticePage, NoticeState
from stayer.core.schedules.model import Firing, Schedule
from stayer.store import Meanwhile, Store, Waiter
from stayer.stores.sql import failures, notices, queue_stats, reads, schedules
from stayer.stores.sql import flows as ties
from stayer.stores.sql import queues as keeping
from stayer.stores.sql import workers as hands
from stayer.stores.sql.commit import applied, commit, delayed
from stayer.stores.sql.find import find
from stayer.stores.sql.flows import relay
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.reserve import following, promote, reserve
from stayer.stores.sql.retention import forget, is_anything_old
from stayer.stores.sql.rows import json_cell
from stayer.stores.sql.sqlite import schema
from stayer.stores.sql.sqlite.damage import Mending
from stayer.stores.sql.sqlite.database import Database, Unreadable, translated
from stayer.stores.sql.sqlite.health import check
from stayer.stores.sql.sqlite.rights import SHARED, as_shared
from stayer.stores.sql.sqlite.wake import FileWaiter
from stayer.stores.sql.submit import IdTaken, submit, submit_flow

_AT_ONCE, _ROUNDS = 500, 4
"""How many dependents hear of an end in one transaction, and how many of these follow a commit."""
_SYNCHRONOUS = ("normal", "full", "extra", "off")


def open_store(url: str, clock: Callable[[], float] | None = None) -> SqliteStore:
    """`sqlite:///relative/path.db` or `sqlite:////absolute/path.db`, `?synchronous=full`,
    `&shared=group`.
    """
    path, _, query = url.removeprefix("sqlite:").partition("?")
    _refuse_memory(url, _unquote(path).lower(), query.lower())
    if not path.startswith("///") or path == "///":
        raise BadConfig(
            f"store {url!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db"
        )
    options = {"synchronous": "normal", "shared": "no"}
    for option in filter(None, query.lower().split("&")):
        name, _, value = option.partition("=")
        options[name] = value
    synchronous, shared = options["synchronous"], as_shared(options["shared"])
    if len(options) > 2 or synchronous not in _SYNCHRONOUS or shared is None:
        raise BadConfig(
            f"store {url!r}: the only options are synchronous={'|'.join(_SYNCHRONOUS)} and "
            f"shared={'|'.join(SHARED)}"
        )
    place = os.path.abspath(_unquote(path[3:]))
    return SqliteStore(url, Database(place, synchronous, clock, shared))


def _refuse_memory(url: str, path: str, query: str) -> None:
    """What others call a database in memory would be a file of that name here."""
    if ":memory:" in path or path.lstrip("/").startswith("file:") or "mode=memory" in query:
        raise BadConfig(
            f"store {url!r}: there is no store in memory, for others could not reach it. Give the "
            "path of a file: sqlite:///relative/path.db or sqlite:////absolute/path.db"
        )


def _unquote(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path)


def _make_default_folder(url: str, folder: str) -> None:
    """Any other folder is the user's to make: it may be a slip of the pen."""
    with suppress(BadInput):  # nobody has a home here, so this is not in it
        if url == default_store(os.environ):
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            except OSError as error:
                raise StoreUnusable(
                    f"{folder} can't be made: {error.strerror}. Make it, or set STAYER_STORE"
                ) from error


_DAMAGED = (
    Unreadable, msgspec.MsgspecError, ArithmeticError, AssertionError, AttributeError, LookupError,
    TypeError, ValueError,
)  # fmt: skip
"""What an operation may fail with where a row is not what it should be."""


def _may_be_damage(error: Exception) -> bool:
    """Whether it may come from what is in the tables, not from what was asked."""
    if isinstance(error, StayerError) and not isinstance(error, Unreadable):
        return isinstance(error.__cause__, ArithmeticError | sqlite3.IntegrityError)
    return isinstance(error, _DAMAGED)


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _mended(
    operation: Callable[Concatenate[SqliteStore, _P], _T],
) -> Callable[Concatenate[SqliteStore, _P], _T]:
    """The same, tried once more after what can't be read was set aside."""

    @functools.wraps(operation)
    def tried(store: SqliteStore, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return operation(store, *arguments, **named)
        except Exception as error:
            if not _may_be_damage(error) or not store.mending.mend():
                raise
        return operation(store, *arguments, **named)

    return tried


class SqliteStore(Store):
    """The contract on a SQLite file: each operation is one transaction."""

    a_turn = 1000

    def __init__(self, url: str, database: Database) -> None:
        self.url = url
        self.path: str = database.path
        self._database = database
        self.mending = Mending(database)
        self._read = database.read
        self._write = database.write

    def setup(self) -> None:
        _make_default_folder(self.url, os.path.dirname(self.path))
        schema.setup(self._database)

    def close(self) -> None:
        self._database.close()

    def check(self) -> list[Finding]:
        return check(self._database)

    def now(self) -> float:
        return self._database.clock()

    @_mended
    def identity(self) -> str:
        with self._read() as tx:
            known = reads.identity(tx)
        if known is None:
            with self._write() as tx:
                known = reads.make_identity(tx)
        return known

    @_mended
    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        try:
            with self._write() as tx:
                answers = submit(tx, tasks)
        except IdTaken:
            with self._write() as tx:
                answers = submit(tx, tasks, trusting=False)
        if any(answer.fresh and answer.task.state == "waiting" for answer in answers):
            self._relay()
        return answers

    @_mended
    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        with self._write() as tx:
            fresh = submit_flow(tx, flow, tasks)
        if fresh:
            self._relay()
        return fresh

    def submit_on(self, connection: object, tasks: Sequence[NewTask]) -> list[Submitted]:
        if not isinstance(connection, sqlite3.Connection):
            raise BadInput(
                f"a {type(connection).__name__} is no connection to this store: give the "
                "sqlite3.Connection whose transaction the task should belong to"
            )
        with translated(self._database.path):
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            try:
                return submit(self._database.joined(connection), tasks, trusting=False)
            except IdTaken:
                raise Refused(
                    "one of these ids came into being while your transaction was open: roll it "
                    "back and try again"
                ) from None

    @_mended
    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        with self._write() as tx:
            ledger = Ledger(tx)
            tasks = reserve(tx, worker, queues, limit, handles, ledger)
            ledger.write()
            return tasks

    @_mended
    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        asked_at = self.now()
        with self._write() as tx:
            tasks, told = commit(tx, delayed(changes, tx.now - asked_at))
        if told:
            self._relay()
        return tasks

    def _relay(self) -> None:
        """Let dependents hear of what has ended; workers do the rest, if there are many."""
        # The change itself is made, and that must be answered.
        with suppress(StoreError, *_DAMAGED):
            for _ in range(_ROUNDS):
                if not self._relay_some():
                    break

    @_mended
    def _relay_some(self) -> bool:
        with self._write() as tx:
            return relay(tx, _AT_ONCE)

    @_mended
    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
        meanwhile: Meanwhile = None,
    ) -> tuple[list[bool], Sequence[Task]]:
        if meanwhile is not None:
            meanwhile()  # nobody else does it
        asked_at = self.now()
        with self._write() as tx:
            ledger = Ledger(tx)
            answers = applied(tx, delayed(changes, tx.now - asked_at), ledger)
            if ledger.has_news_for_others:
                if ledger.write():
                    relay(tx, _AT_ONCE)
                ledger = Ledger(tx)
            tasks = reserve(tx, worker, queues, limit, handles, ledger)
            ledger.write()
            return answers, tasks

    @_mended
    def promote(self, limit: int) -> float | None:
        with self._read() as tx:
            when = following(tx)
            if when is None or when > tx.now:
                return when
        with self._write() as tx:
            return promote(tx, limit)

    @_mended
    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        with self._write() as tx:
            return hands.beat(tx, worker, number, nonce, reports)

    @_mended
    def bury(self, judge: str, silent: dict[str, int]) -> list[Task]:
        with self._write() as tx:
            return hands.bury(tx, judge, silent)

    @_mended
    def holdings(self, worker: str, queues: Sequence[str] = ()) -> list[Task]:
        with self._read() as tx:
            held = hands.holdings(tx, worker)
        return [task for task in held if not queues or task.queue in queues]

    @_mended
    def workers(self) -> list[Worker]:
        with self._read() as tx:
            return hands.workers(tx)

    @_mended
    def attend(self, workers: Sequence[str], seconds: float) -> None:
        with self._write() as tx:
            hands.attend(tx, workers, seconds)

    @_mended
    def drain_worker(self, worker: str) -> Worker:
        with self._write() as tx:
            return hands.drain_worker(tx, worker)

    @_mended
    def drop_worker(self, worker: str, number: int | None = None) -> list[Task]:
        with self._write() as tx:
            return hands.drop_worker(tx, worker, number)

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        names = json_cell(list(queues))

        def mark() -> object:
            with self._read() as tx:
                return tx.one("wakes", names, worker)

        return FileWaiter(self._database.path, mark)

    @_mended
    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        waiter: FileWaiter | None = None
        try:
            while True:
                with self._read() as tx:
                    events = reads.watch(tx, since, limit)
                if events or timeout <= 0:
                    return events
                if waiter is None:
                    # Listens before it looks once more, so that nothing falls between.
                    waiter = FileWaiter(self._database.path, self.last_event)
                elif not waiter.wait(timeout):
                    return []
        finally:
            if waiter is not None:
                waiter.close()

    @_mended
    def last_event(self) -> int:
        with self._read() as tx:
            return reads.last_event(tx)

    @_mended
    def get(self, ids: Sequence[str]) -> list[Task | None]:
        with self._read() as tx:
            return reads.get(tx, ids)

    @_mended
    def find(self, filter: Filter, cursor: str | None, limit: int) -> Page:
        with self._read() as tx:
            return find(tx, filter, cursor, limit)

    @_mended
    def upstreams(self, ids: Sequence[str]) -> list[Upstreams]:
        with self._read() as tx:
            return ties.upstreams(tx, ids)

    @_mended
    def waits(self, id: str, limit: int) -> tuple[list[str], int]:
        with self._read() as tx:
            return ties.waits(tx, id, limit)

    @_mended
    def flows(self, cursor: str | None, limit: int) -> FlowPage:
        with self._read() as tx:
            return ties.flows(tx, cursor, limit)

    @_mended
    def flow(self, id: str) -> FlowInfo | None:
        with self._read() as tx:
            return ties.flow(tx, id)

    @_mended
    def peek(self, queue: str, limit: int) -> list[Task]:
        with self._read() as tx:
            return reads.peek(tx, queue, limit)

    @_mended
    def ahead(self, id: str) -> int:
        with self._read() as tx:
            return reads.ahead(tx, id)

    @_mended
    def durations(self, queue: str, limit: int) -> list[tuple[str, float]]:
        with self._read() as tx:
            return reads.durations(tx, queue, limit)

    @_mended
    def failures(self, queues: Sequence[str], limit: int) -> Failures:
        with self._read() as tx:
            return failures.find(tx, queues, limit)

    @_mended
    def attempts(self, id: str) -> list[Attempt]:
        with self._read() as tx:
            return reads.attempts(tx, id)

    @_mended
    def events(self, id: str) -> list[Event]:
        with self._read() as tx:
            return reads.events(tx, id)

    @_mended
    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        with self._read() as tx:
            return reads.log(tx, id, attempt, start, limit)

    @_mended
    def usage(self, id: str, attempt: int) -> list[Usage]:
        with self._read() as tx:
            return reads.usage(tx, id, attempt)

    @_mended
    def checkpoint(self, id: str) -> Checkpoint | None:
        with self._read() as tx:
            return reads.checkpoint(tx, id)

    @_mended
    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        with self._read() as tx:
            return reads.queues(tx, names)

    @_mended
    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        with self._write() as tx:
            return keeping.set_queue(tx, name, settings)

    @_mended
    def sample(self) -> float:
        with self._read() as tx:
            last = queue_stats.last_sampled(tx)
            minutes = queue_stats.whole_minutes(tx.now)
            points = queue_stats.counted(tx, last) if last is None or last < minutes else []
        if points:
            with self._write() as tx:
                queue_stats.write(tx, last, points, minutes)
        return minutes + queue_stats.MINUTE - self.now()

    @_mended
    def figures(
        self, since: float, until: float, step: int, queues: Sequence[str] | None
    ) -> list[Figures]:
        with self._read() as tx:
            return queue_stats.read(tx, since, until, step, queues)

    @_mended
    def drop_queue(self, name: str, limit: int) -> int:
        with self._write() as tx:
            return keeping.drop_queue(tx, name, limit)

    @_mended
    def purge(
        self, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
    ) -> list[str]:
        with self._write() as tx:
            return keeping.purge(tx, ids, states, before, limit)

    @_mended
    def forget(self, retention: Mapping[Kept, float], limit: int) -> int:
        with self._read() as tx:  # others need not stand in line behind a look
            if not is_anything_old(tx, retention):
                return 0
        with self._write() as tx:
            return forget(tx, retention, limit)

    @_mended
    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        with self._read() as tx:  # as with `forget`
            if not notices.is_anything_due(tx, hooks, age):
                return []
        with self._write() as tx:
            return notices.take_notices(tx, hooks, limit, lease, age)

    @_mended
    def settle_notice(self, notice: Notice, delivery: Delivery) -> bool:
        with self._write() as tx:
            return notices.settle_notice(tx, notice, delivery)

    @_mended
    def notices(
        self, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
    ) -> NoticePage:
        with self._read() as tx:
            return notices.page(tx, task, state, cursor, limit)

    @_mended
    def retry_notices(self, ids: Sequence[str]) -> int:
        with self._write() as tx:
            return notices.retry_notices(tx, ids)

    @_mended
    def drop_notices(self, ids: Sequence[str]) -> int:
        with self._write() as tx:
            return notices.drop_notices(tx, ids)

    @_mended
    def schedules(self, names: Sequence[str] = ()) -> list[Schedule]:
        with self._read() as tx:
            return schedules.schedules(tx, names)

    @_mended
    def due_schedules(self, limit: int) -> list[Schedule]:
        with self._read() as tx:
            return schedules.due_schedules(tx, limit)

    @_mended
    def put_schedule(self, schedule: Schedule, seen: float | None = None) -> Schedule:
        with self._write() as tx:
            return schedules.put_schedule(tx, schedule, seen)

    @_mended
    def fire(self, firing: Firing) -> bool:
        with self._write() as tx:
            return schedules.fire(tx, firing)

    @_mended
    def drop_schedule(self, name: str) -> bool:
        with self._write() as tx:
            return schedules.drop_schedule(tx, name)
