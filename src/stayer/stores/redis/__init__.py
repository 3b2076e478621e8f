"""Redis and Valkey: one server at a time, every change a script that runs there as one step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from stayer.core.errors import LeaseLost, StoreError, StoreUnusable
from stayer.core.flows.model import NewFlow
from stayer.core.flows.model import check as check_ties
from stayer.core.insight.failures import Failures
from stayer.core.insight.health import Finding
from stayer.core.model import Change, NewTask, Report, Submitted, Task
from stayer.core.move.records import Record, Seal
from stayer.core.worker_model import Beat, Handles, Worker
from stayer.store import Meanwhile, Store, Waiter
from stayer.stores.redis import failures as failure_groups
from stayer.stores.redis import files as file_calls
from stayer.stores.redis import flows as ties
from stayer.stores.redis import (
    incoming,
    leases,
    missing_records,
    queue_stats,
    reads,
    record,
    sealing,
)
from stayer.stores.redis import notices as notice_calls
from stayer.stores.redis import queues as queue_calls
from stayer.stores.redis import schedules as schedule_calls
from stayer.stores.redis import workers as beats
from stayer.stores.redis.connection.open_url import address_of
from stayer.stores.redis.connection.server import ScriptRefusal, Server
from stayer.stores.redis.damage import Mending, retry_after_mending
from stayer.stores.redis.defaults import KnownDefaults
from stayer.stores.redis.dump import dump as dump_records
from stayer.stores.redis.find import find as find_tasks
from stayer.stores.redis.health import check, refuse_what_will_not_do
from stayer.stores.redis.keys import key
from stayer.stores.redis.load import load as load_records
from stayer.stores.redis.pack import handles as patterns
from stayer.stores.redis.pack.changes import Arguments, pack_changes
from stayer.stores.redis.pack.tasks import (
    FIXED,
    Decided,
    has_one_twice,
    make_partial_error,
    pack_parts,
    pack_tasks,
    pack_ties,
    parts_of,
    read_answers,
)
from stayer.stores.redis.pubsub import waiter_for
from stayer.stores.redis.pubsub import watch as watch_events

P = ParamSpec("P")
R = TypeVar("R")

SCHEMA = 1
_RELAY_BATCH, _RELAY_ROUNDS = 500, 4
"""How many dependents hear of an end in one step, and how many of these follow a commit."""
_TAKEN_IN = 1000
"""How many items from outside are taken at once, when all are to be."""


def open_store(url: str, clock: Callable[[], float] | None = None) -> RedisStore:
    """`redis://host:6379/0`, `rediss://…`, `unix:///path/of/the/socket`, or sentinels that know the
    server, `redis+sentinel://host:26379,host:26379/service`; `?prefix=…`.
    """
    return RedisStore(Server(address_of(url), clock))


def _at_server(
    operation: Callable[Concatenate[Server, P], R],
) -> Callable[Concatenate[RedisStore, P], R]:
    """Make a method of an operation that takes the server first."""

    @retry_after_mending
    @functools.wraps(operation)
    def call(store: RedisStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return operation(store._server, *args, **kwargs)

    return call


class RedisStore(Store):
    """The contract on a Redis or Valkey server: each operation is one script (many new tasks are
    several, one after the other).
    """

    a_turn = 500
    has_incoming = True

    def __init__(self, server: Server) -> None:
        self.url = server.address.url
        self._server = server
        self._run = server.run
        self._meta = key("meta", server.address.prefix)
        self._defaults = KnownDefaults()
        self.mending = Mending(server)

    def setup(self) -> None:
        refuse_what_will_not_do(self._server)
        known = self._server.ask("HGET", self._meta, "schema")
        schema = int(self._run("setup", SCHEMA) if known is None else known)
        if schema > SCHEMA:
            raise StoreUnusable(
                f"{self.url} was used by a newer Stayer (keys of version {schema}, this one knows "
                f"{SCHEMA}): upgrade Stayer here, or choose another prefix"
            )

    def close(self) -> None:
        self._server.close()

    def check(self) -> list[Finding]:
        return check(self._server)

    def now(self) -> float:
        return self._server.now()

    @retry_after_mending
    def identity(self) -> str:
        # Who only asks must not wait for replicas, of which there may be none at the moment.
        known = self._server.ask("HGET", self._meta, "identity")
        made = self._run("identity", uuid4().hex) if known is None else known
        return str(made.decode())

    @retry_after_mending
    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        if not tasks:
            return []
        parts = None if self._defaults.pack_defaults(tasks) else parts_of(tasks)
        if parts is None:
            return self._submit_whole(tasks)
        answers = self._server.run_each("submit", pack_parts(tasks, parts))
        accepted: list[Submitted] = []
        try:
            for part, (now, not_fresh, *more) in zip(parts, answers, strict=True):
                if more:
                    accepted += read_answers(tasks[part], float(now), not_fresh)
                else:  # the queue has got defaults
                    accepted += self._submit_whole(tasks[part])
        except StoreError as error:
            if not accepted and not error.unsure:
                raise
            raise make_partial_error(error, len(accepted), len(tasks)) from error
        return accepted

    def _submit_whole(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        accepted, now, not_fresh, waiting, needed = self._submit(tasks)
        return read_answers(accepted, now, not_fresh, waiting, needed)

    @retry_after_mending
    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        try:
            self._submit(tasks, ties.pack_flow(flow))
        except ties.FlowKnown:
            return False
        return True

    @retry_after_mending
    def accept(self, tasks: Sequence[NewTask], flow: bytes, decided: Decided) -> None:
        """Take in the part of this shard of what has been decided, as far as it is not there."""
        self._submit(tasks, flow, decided)

    def _submit(
        self, tasks: Sequence[NewTask], flow: bytes = b"", decided: Decided | None = None
    ) -> tuple[Sequence[NewTask], float, list[record.Raw], set[str], set[str]]:
        """Return the tasks with the defaults of their queues, the time, what was not fresh, which
        wait, and which are needed by others of them.
        """
        tied = pack_ties(tasks)
        if tied and decided is None:
            check_ties(tasks)
        needed = {id for new in tasks for id in (*new.after, *new.behind)} if tied else set()
        if decided is not None:
            needed |= decided.needed
        states = b"" if decided is None else record.pack(decided.states)
        asked = tasks
        while True:
            tasks, applied = self._defaults.apply(asked), self._defaults.pack_defaults(asked)
            arguments = Arguments(FIXED)
            packed = record.pack(pack_tasks(tasks, arguments, needed))
            now, *answer = self._run(
                "submit", packed, has_one_twice(tasks), record.pack(tied) if tied else "", flow,
                states, applied, *arguments.values,
            )  # fmt: skip
            if len(answer) > 1:
                break
            if answer[0][0] != b"defaults":
                ties.refuse(answer[0])
            self._defaults.hear(answer[0][1:])
        not_fresh, waiting, ended_before = answer
        if ended_before:
            self._relay()
        return tasks, float(now), not_fresh, {id.decode() for id in waiting}, needed

    @retry_after_mending
    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        wanted = record.pack((queues, patterns.pack_handles(handles)))
        given: list[Task] = []
        while True:
            try:
                answer = self._run("reserve", worker, limit - len(given), wanted)
            except ScriptRefusal:
                raise _may_take_no_tasks(worker) from None
            tasks, failed = missing_records.readable(*answer)
            given += tasks
            if not failed:
                return given
            self.commit(failed)

    @retry_after_mending
    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        if not changes:
            return []
        arguments = Arguments(fixed=3)
        packed = record.pack(pack_changes(changes, arguments))
        values, kept_apart, has_dependents = self._run("commit", packed, *arguments.values)
        if has_dependents:
            self._relay()
        return record.tasks_or_none(values, kept_apart)

    def _relay(self) -> None:
        """Let dependents hear of what has ended; workers do the rest, if there are many."""
        with suppress(StoreError):  # the change itself is made, and that must be answered
            for _ in range(_RELAY_ROUNDS):
                if not ties.relay(self._server, _RELAY_BATCH):
                    break

    @retry_after_mending
    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
        meanwhile: Meanwhile = None,
    ) -> tuple[list[bool], Sequence[Task]]:
        if not changes:  # a shorter script, and somebody waits for what it finds
            if meanwhile is not None:
                meanwhile()
            return [], self.reserve(worker, queues, limit, handles)
        arguments = Arguments(fixed=6)
        packed = record.pack(pack_changes(changes, arguments))
        wanted = record.pack((queues, patterns.pack_handles(handles)))
        try:
            refused, values, kept_apart, has_dependents, went_wrong = self._run(
                "turn", worker, limit, wanted, packed, *arguments.values, meanwhile=meanwhile
            )
        except ScriptRefusal:
            raise _may_take_no_tasks(worker) from None
        if has_dependents:
            self._relay()
        answers = [True] * len(changes)
        for number in refused:
            answers[number] = False
        if went_wrong or record.without_parameters(values, kept_apart):
            tasks, failed = missing_records.readable(values, kept_apart)
            self.commit(failed)
            return answers, tasks + self.reserve(worker, queues, limit - len(tasks), handles)
        return answers, record.TasksReadLater(values, kept_apart) if values else []

    @retry_after_mending
    def promote(self, limit: int) -> float | None:
        following, came_in, noted, *_, met = self._run("promote", limit, limit)
        if met:
            self.see_to_missing_records()
            return 0.0
        if noted and ties.relay(self._server, limit):
            return 0.0
        if came_in and incoming.take(self._server, limit):
            return self.now()
        if came_in or noted:
            following, *_ = self._run("promote", 0, 0)
        return None if following is None else float(following)

    @retry_after_mending
    def see_to_missing_records(self) -> int:
        """Take what was met without its record out of where it stands; how many were lost."""
        return missing_records.clear_noted(self._server)

    @retry_after_mending
    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        return self._beat(worker, beats.pack_worker(worker, number, nonce), reports)

    def _beat(self, worker: Worker, about: record.Raw, reports: Sequence[Report]) -> Beat:
        arguments = Arguments(fixed=4)
        packed = record.pack(beats.pack_reports(reports, arguments))
        try:
            return beats.beat(self._run("beat", record.pack(about), packed, *arguments.values))
        except ScriptRefusal:
            raise LeaseLost(
                f"worker {worker.id} lost its lease: it was declared lost, or another process "
                "uses its identity. Its tasks may run elsewhere by now"
            ) from None

    @retry_after_mending
    def report(self, worker: str, reports: Sequence[Report]) -> list[bool]:
        arguments = Arguments(fixed=4)
        packed = record.pack(beats.pack_reports(reports, arguments))
        taken = self._run("report", worker, packed, *arguments.values)
        return [each == 1 for each in taken]

    @retry_after_mending
    def sample(self) -> float:
        if queue_stats.sample(self._server):
            missing_records.look(self._server)
        return 60.0 - self.now() % 60.0

    @retry_after_mending
    def failures(self, queues: Sequence[str], limit: int) -> Failures:
        return failure_groups.find([(self._server, queues)], limit)

    # Moving

    def count_incoming(self) -> int:
        return incoming.count_waiting(self._server)

    def take_in(self) -> None:
        while incoming.take(self._server, _TAKEN_IN):
            pass

    def put_seal(self, seal: Seal | None) -> None:
        sealing.put_seal(self._server, seal)

    def load(self, records: Sequence[Record], progress: str) -> None:
        load_records(self._server, records)
        sealing.note_progress(self._server, progress)

    seal = _at_server(sealing.seal)
    dump = _at_server(dump_records)

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        return waiter_for(self._server, worker, queues)

    get = _at_server(reads.get)
    find = _at_server(find_tasks)
    upstreams = _at_server(ties.upstreams)
    waits = _at_server(ties.waits)
    flows = _at_server(ties.flows)
    flow = _at_server(ties.flow)
    peek = _at_server(reads.peek)
    ahead = _at_server(reads.ahead)
    durations = _at_server(reads.durations)
    attempts = _at_server(reads.attempts)
    events = _at_server(reads.events)
    log = _at_server(reads.log)
    usage = _at_server(reads.usage)
    statistics = _at_server(reads.statistics)
    checkpoint = _at_server(reads.checkpoint)
    queues = _at_server(reads.queues)
    figures = _at_server(queue_stats.figures)
    workers = _at_server(leases.workers)
    lost_workers = _at_server(leases.lost_workers)
    schedules = _at_server(schedule_calls.schedules)
    notices = _at_server(notice_calls.page)
    watch = _at_server(watch_events)
    last_event = _at_server(reads.last_event)
    attend = _at_server(leases.attend)
    record_once = _at_server(leases.record_once)
    read_record = _at_server(leases.read_record)
    read_shared = _at_server(leases.read_shared)
    put_shared = _at_server(leases.put_shared)

    declare_lost = _at_server(leases.declare_lost)
    holdings = _at_server(leases.holdings)
    drop_worker = _at_server(leases.drop_worker)
    drain_worker = _at_server(leases.drain_worker)
    order_worker = _at_server(leases.order_worker)

    set_queue = _at_server(queue_calls.set_queue)
    drop_queue = _at_server(queue_calls.drop_queue)
    purge = _at_server(queue_calls.purge)
    forget = _at_server(queue_calls.forget)
    put_file = _at_server(file_calls.put_file)
    get_file = _at_server(file_calls.get_file)
    old_files = _at_server(file_calls.old_files)
    drop_files = _at_server(file_calls.drop_files)
    put_schedule = _at_server(schedule_calls.put_schedule)
    drop_schedule = _at_server(schedule_calls.drop_schedule)
    due_schedules = _at_server(schedule_calls.due_schedules)
    fire = _at_server(schedule_calls.fire)
    take_notices = _at_server(notice_calls.take_notices)
    add_notices = _at_server(notice_calls.add_notices)
    settle_notice = _at_server(notice_calls.settle_notice)
    retry_notices = _at_server(notice_calls.retry_notices)
    drop_notices = _at_server(notice_calls.drop_notices)


def _may_take_no_tasks(worker: str) -> LeaseLost:
    return LeaseLost(
        f"worker {worker} is not registered, or was declared lost: it may take no tasks"
    )
