"""The contract of `stayer.store` on a database that speaks SQL: each operation is one transaction.

What an operation does is a function of a `Transaction`, a file a subject beside this one; here is
only how each is run: as a look or as a change, and again if it failed for what may be over.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar, Unpack

from stayer.core.errors import Refused, StoreError
from stayer.core.flows.model import NewFlow
from stayer.core.model import Change, Event, NewTask, Report, Submitted, Task
from stayer.core.move.records import Batch, Record, Seal, Stage
from stayer.core.notify.notices import Notice
from stayer.core.queue_model import Kept, QueueInfo, QueueSettings
from stayer.core.worker_model import Beat, Handles, Worker
from stayer.store import Meanwhile, Store, Waiter
from stayer.stores.sql import failures as failure_reads
from stayer.stores.sql import files as file_operations
from stayer.stores.sql import flows as flow_operations
from stayer.stores.sql import notices as notice_operations
from stayer.stores.sql import queue_stats, reads, sealing, shared_values
from stayer.stores.sql import queues as queue_operations
from stayer.stores.sql import schedules as schedule_operations
from stayer.stores.sql import workers as worker_operations
from stayer.stores.sql.commit import apply_changes, commit, date_back_all
from stayer.stores.sql.dump import dump as dump_records
from stayer.stores.sql.find import find
from stayer.stores.sql.joined import ROLL_BACK
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.load import load as load_records
from stayer.stores.sql.reserve import following, promote, reserve
from stayer.stores.sql.retention import forget, is_anything_old
from stayer.stores.sql.submit import IdTaken, submit
from stayer.stores.sql.submit import submit_flow as submit_whole_flow
from stayer.stores.sql.transaction import Database, Transaction

RELAY_BATCH, RELAY_ROUNDS = 500, 4
"""How many dependents hear of an end in one transaction, and how many of these follow a commit."""
_ID_TAKEN_TRIES = 5
"""How often somebody else may come first with an id before it is odd."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="SqlStore")


def repeated(operation: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method that is tried again as long as the store says that this may help."""

    @functools.wraps(operation)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        tries = 0
        while True:
            try:
                return operation(self, *args, **kwargs)
            except Exception as error:
                tries += 1
                if not self.should_try_again(error, tries):
                    raise

    return method


def _reads(
    operation: Callable[Concatenate[Transaction, P], R],
) -> Callable[Concatenate[SqlStore, P], R]:
    """Make a method of an operation that only looks."""

    @functools.wraps(operation)
    def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._database.read() as tx:
            return operation(tx, *args, **kwargs)

    return repeated(method)


def _writes(
    operation: Callable[Concatenate[Transaction, P], R],
) -> Callable[Concatenate[SqlStore, P], R]:
    """Make a method of an operation that changes something."""

    @functools.wraps(operation)
    def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._database.write() as tx:
            return operation(tx, *args, **kwargs)

    return repeated(method)


class SqlStore(Store):
    """The contract on tables. A dialect gives it a `Database`."""

    a_turn = 1000

    def __init__(self, url: str, database: Database) -> None:
        self.url = url
        self._database = database

    def should_try_again(self, error: Exception, tries: int) -> bool:
        """Whether an operation that has failed so many times, and of which nothing is committed,
        may succeed now. A dialect adds what it knows: a deadlock that was broken, damage that was
        set aside.
        """
        return isinstance(error, IdTaken) and tries < _ID_TAKEN_TRIES

    # Life

    def setup(self) -> None:
        """Make or upgrade the tables."""
        self._database.setup()

    def ddl(self) -> str:
        """All that makes the tables, as text for whoever has the right to run it."""
        return self._database.ddl()

    def close(self) -> None:
        """Release all connections."""
        self._database.close()

    def now(self) -> float:
        """The store's clock."""
        return self._database.clock()

    @repeated
    def identity(self) -> str:
        """What tells this store from any other."""
        with self._database.read() as tx:
            known = reads.identity(tx)
        if known is None:
            with self._database.write() as tx:
                known = reads.make_identity(tx)
        return known

    # The one road

    @repeated
    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept tasks. Ids drawn at random are looked up only if one is there already."""
        try:
            with self._database.write() as tx:
                answers = submit(tx, tasks)
        except IdTaken:
            with self._database.write() as tx:
                answers = submit(tx, tasks, trusting=False)
        if any(answer.fresh and answer.task.state == "waiting" for answer in answers):
            self._relay()
        return answers

    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        """Accept a whole flow in one step."""
        fresh = self._submit_flow(flow, tasks)
        if fresh:
            self._relay()
        return fresh

    def submit_on(self, connection: object, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept tasks as a part of the caller's own transaction."""
        with self._database.joined(connection) as tx:
            try:
                return submit(tx, tasks, trusting=False)
            except IdTaken:
                raise Refused(
                    f"{self.url}: {ROLL_BACK} (one of these ids has come into being)"
                ) from None

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        """Give the worker tasks: a turn in which nothing is to be committed."""
        _, tasks = self._turn(worker, (), queues, limit, handles)
        return tasks

    @repeated
    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """Apply changes, then pass on what has ended."""
        asked_at = self.now()
        with self._database.write() as tx:
            tasks, has_news = commit(tx, date_back_all(changes, tx.now - asked_at))
        if has_news:
            self._relay()
        return tasks

    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
        meanwhile: Meanwhile = None,
    ) -> tuple[list[bool], Sequence[Task]]:
        """Commit, then reserve, in one transaction."""
        if meanwhile is not None:
            meanwhile()  # nobody else does it, and only once: what follows may be tried again
        return self._turn(worker, changes, queues, limit, handles)

    @repeated
    def _turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
    ) -> tuple[list[bool], list[Task]]:
        """Take a turn. A dialect may have a shorter way for the usual one."""
        asked_at = self.now()
        with self._database.write() as tx:
            ledger = Ledger(tx)
            answers = apply_changes(tx, date_back_all(changes, tx.now - asked_at), ledger)
            if ledger.has_news_for_others:
                if ledger.write():
                    flow_operations.relay(tx, RELAY_BATCH)
                ledger = Ledger(tx)
            tasks = reserve(tx, worker, queues, limit, handles, ledger)
            ledger.write()
            return answers, tasks

    @repeated
    def promote(self, limit: int) -> float | None:
        """Make what is due pending, if there is anything: others need not wait for a look."""
        with self._database.read() as tx:
            when = following(tx)
            if when is None or when > tx.now:
                return when
        with self._database.write() as tx:
            return promote(tx, limit)

    def _relay(self) -> None:
        """Let dependents hear of what has ended; workers do the rest, if there are many."""
        # The change itself is made, and that must be answered.
        with suppress(StoreError, ArithmeticError, AssertionError, AttributeError, LookupError,
                      TypeError, ValueError):  # fmt: skip
            for _ in range(RELAY_ROUNDS):
                if not self._relay_some(RELAY_BATCH):
                    break

    _submit_flow = _writes(submit_whole_flow)
    _relay_some = _writes(flow_operations.relay)

    # Workers

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """Renew a lease, at once if that is all there is to do."""
        found = None
        if number > 1 and not reports:
            found = self._beat_at_once(worker, number, nonce)
        return self._beat(worker, number, nonce, reports) if found is None else found

    _beat = _writes(worker_operations.beat)
    _beat_at_once = _writes(worker_operations.beat_at_once)
    declare_lost = _writes(worker_operations.declare_lost)
    holdings = _reads(worker_operations.holdings)
    workers = _reads(worker_operations.workers)
    lost_workers = _reads(worker_operations.lost_workers)
    attend = _writes(worker_operations.attend)
    report = _writes(worker_operations.report)
    record_once = _writes(shared_values.record_once)
    read_record = _reads(shared_values.read_record)
    read_shared = _reads(shared_values.read_shared)
    put_shared = _writes(shared_values.put_shared)
    drain_worker = _writes(worker_operations.drain_worker)
    order_worker = _writes(worker_operations.order_worker)
    drop_worker = _writes(worker_operations.drop_worker)

    # Waiting

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        """A waiter for work in these queues and for orders to this worker."""
        return self._database.waiter(worker, queues)

    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        """Events after a number, waiting for the first."""
        waiter: Waiter | None = None
        deadline = time.monotonic() + timeout  # a waiter may wake for nothing, again and again
        try:
            while True:
                events = self._watched(since, limit)
                left = deadline - time.monotonic()
                if events or left <= 0:
                    return events
                if waiter is None:
                    # Listens before it looks once more, so that nothing falls between.
                    waiter = self._database.event_waiter()
                elif not waiter.wait(left):
                    return []
        finally:
            if waiter is not None:
                waiter.close()

    @repeated
    def last_event(self) -> int:
        """The number of the newest event."""
        self._database.number_events()
        with self._database.read() as tx:
            return reads.last_event(tx)

    @repeated
    def _watched(self, since: int, limit: int) -> list[Event]:
        self._database.number_events()
        with self._database.read() as tx:
            return reads.watch(tx, since, limit)

    # Moving

    @repeated
    def seal(self) -> Seal | None:
        """Read the mark of a move."""
        with self._database.read() as tx:
            return sealing.read_seal(tx)

    @repeated
    def put_seal(self, seal: Seal | None) -> None:
        """Let nobody change anything, or everybody again."""
        with self._database.write() as tx:
            # The mark first: some databases commit what was done before they make a trigger.
            if seal is None:
                tx.run("seal.drop")
            else:
                sealing.write(tx, seal)
            self._database.refuse_changes(tx, None if seal is None else seal.message)

    @repeated
    def load(self, records: Sequence[Record], progress: str) -> None:
        """Take in records, and note how far that has come, in one transaction."""
        with self._database.write() as tx:
            with sealing.lift_seal(tx):
                load_records(tx, records)
            sealing.note_progress(tx, progress)

    def dump(self, stage: Stage, cursor: str | None, limit: int) -> Batch:
        """Read some of a stage; events have all got their numbers before."""
        if stage == "counters":
            self._database.number_events()
        return self._dump(stage, cursor, limit)

    _dump = _reads(dump_records)

    # Reading

    get = _reads(reads.get)
    find = _reads(find)
    upstreams = _reads(flow_operations.upstreams)
    waits = _reads(flow_operations.waits)
    flow = _reads(flow_operations.flow)
    flows = _reads(flow_operations.flows)
    peek = _reads(reads.peek)
    ahead = _reads(reads.ahead)
    durations = _reads(reads.durations)
    failures = _reads(failure_reads.find)
    attempts = _reads(reads.attempts)
    events = _reads(reads.events)
    log = _reads(reads.log)
    usage = _reads(reads.usage)
    statistics = _reads(reads.statistics)
    checkpoint = _reads(reads.checkpoint)

    # Files

    put_file = _writes(file_operations.put_file)
    get_file = _reads(file_operations.get_file)
    old_files = _reads(file_operations.old_files)
    drop_files = _writes(file_operations.drop_files)

    # Queues and history

    @repeated
    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        """Change those of a queue's settings that are named."""
        with self._database.write() as tx:
            return queue_operations.set_queue(tx, name, settings)

    @repeated
    def sample(self) -> float:
        """Write down the figures of the minutes that are over; counts in a look of its own."""
        with self._database.read() as tx:
            last = queue_stats.last_sampled(tx)
            minutes = queue_stats.whole_minutes(tx.now)
            points = queue_stats.count_minutes(tx, last) if last is None or last < minutes else []
        if points:
            with self._database.write() as tx:
                queue_stats.write(tx, last, points, minutes)
            self._database.tidy()
        return minutes + queue_stats.MINUTE - self.now()

    @repeated
    def forget(self, retention: Mapping[Kept, float], limit: int) -> int:
        """Forget what was kept for long enough, if there is any: a look keeps nobody waiting."""
        with self._database.read() as tx:
            if not is_anything_old(tx, retention):
                return 0
        with self._database.write() as tx:
            return forget(tx, retention, limit)

    queues = _reads(reads.queues)
    figures = _reads(queue_stats.read)
    drop_queue = _writes(queue_operations.drop_queue)
    purge = _writes(queue_operations.purge)

    # Notices

    @repeated
    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        """Take those that are due, if there are any: a look keeps nobody waiting."""
        with self._database.read() as tx:
            if not notice_operations.is_anything_due(tx, hooks, age):
                return []
        with self._database.write() as tx:
            return notice_operations.take_notices(tx, hooks, limit, lease, age)

    add_notices = _writes(notice_operations.add_notices)
    settle_notice = _writes(notice_operations.settle_notice)
    retry_notices = _writes(notice_operations.retry_notices)
    drop_notices = _writes(notice_operations.drop_notices)
    notices = _reads(notice_operations.page)

    # Schedules

    due_schedules = _reads(schedule_operations.due_schedules)
    put_schedule = _writes(schedule_operations.put_schedule)
    fire = _writes(schedule_operations.fire)
    drop_schedule = _writes(schedule_operations.drop_schedule)
    schedules = _reads(schedule_operations.schedules)
