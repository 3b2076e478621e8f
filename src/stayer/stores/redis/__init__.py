"""Redis and Valkey: one server at a time, every change a script that runs there as one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, Unpack
from uuid import uuid4

from stayer.core.errors import (
    LeaseLost,
    Refused,
    StoreError,
    StoreUnusable,
    UnknownQueue,
    UnknownWorker,
)
from stayer.core.flows.model import FlowInfo, FlowPage, NewFlow, Upstreams
from stayer.core.flows.model import check as check_ties
from stayer.core.insight.failures import Failures
from stayer.core.insight.queue_stats import Figures
from stayer.core.limits import QUEUE
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
from stayer.core.queue_settings import refuse_key_limits
from stayer.core.schedules.model import Firing, Schedule
from stayer.core.units import format_duration
from stayer.store import Meanwhile, Waiter
from stayer.stores.health import Finding
from stayer.stores.redis import (
    failures,
    incoming,
    missing_records,
    notices,
    queue_stats,
    reads,
    record,
    schedules,
)
from stayer.stores.redis import flows as ties
from stayer.stores.redis import workers as worker_codec
from stayer.stores.redis.connection.open_url import address_of
from stayer.stores.redis.connection.server import ScriptRefusal, Server
from stayer.stores.redis.damage import Mending, retry_after_mending
from stayer.stores.redis.find import find
from stayer.stores.redis.health import check, refuse_what_will_not_do
from stayer.stores.redis.keys import key
from stayer.stores.redis.pack import handles as patterns
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.changes import packed_groups as packed_changes
from stayer.stores.redis.pack.tasks import (
    FIXED,
    Decided,
    has_one_twice,
    packed_groups,
    packed_parts,
    packed_ties,
    partly_accepted,
    parts_of,
    submitted,
)
from stayer.stores.redis.pubsub import waiter_for, watch

SCHEMA = 1
_RELAY_BATCH, _RELAY_ROUNDS = 500, 4
"""How many dependents hear of an end in one step, and how many of these follow a commit."""


def open_store(url: str, clock: Callable[[], float] | None = None) -> RedisStore:
    """`redis://host:6379/0`, `rediss://…`, `unix:///path/of/the/socket`, or sentinels that know the
    server, `redis+sentinel://host:26379,host:26379/service`; `?prefix=…`.
    """
    return RedisStore(Server(address_of(url), clock))


class RedisStore:
    """The contract on a Redis or Valkey server: each operation is one script (many new tasks are
    several, one after the other).
    """

    a_turn = 500

    def __init__(self, server: Server) -> None:
        self.url = server.address.url
        self._server = server
        self._run = server.run
        self._meta = key("meta", server.address.prefix)
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
        parts = parts_of(tasks)
        if parts is None:
            return submitted(tasks, *self._submit(tasks))
        answers = self._server.run_each("submit", packed_parts(tasks, parts))
        accepted: list[Submitted] = []
        try:
            for part, (now, not_fresh, *_) in zip(parts, answers, strict=True):
                accepted += submitted(tasks[part], float(now), not_fresh)
        except StoreError as error:
            if not accepted and not error.unsure:
                raise
            raise partly_accepted(error, len(accepted), len(tasks)) from error
        return accepted

    @retry_after_mending
    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        try:
            self._submit(tasks, ties.packed(flow))
        except ties.FlowKnown:
            return False
        return True

    @retry_after_mending
    def accept(self, tasks: Sequence[NewTask], flow: bytes, decided: Decided) -> None:
        """Take in the part of this shard of what has been decided, as far as it is not there."""
        self._submit(tasks, flow, decided)

    def _submit(
        self, tasks: Sequence[NewTask], flow: bytes = b"", decided: Decided | None = None
    ) -> tuple[float, list[record.Raw], set[str], set[str]]:
        """The time, what was not fresh, which wait, and which are needed by others of them."""
        tied = packed_ties(tasks)
        if tied and decided is None:
            check_ties(tasks)
        needed = {id for new in tasks for id in (*new.after, *new.behind)} if tied else set()
        if decided is not None:
            needed |= decided.needed
        states = b"" if decided is None else record.pack(decided.states)
        arguments = Arguments(FIXED)
        packed = record.pack(packed_groups(tasks, arguments, needed))
        now, *answer = self._run(
            "submit", packed, has_one_twice(tasks), record.pack(tied) if tied else "", flow, states,
            *arguments.values,
        )  # fmt: skip
        if len(answer) == 1:
            ties.refuse(answer[0])
        not_fresh, waiting, ended_before = answer
        if ended_before:
            self._relay()
        return float(now), not_fresh, {id.decode() for id in waiting}, needed

    @retry_after_mending
    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        wanted = record.pack((queues, patterns.packed(handles)))
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
        packed = record.pack(packed_changes(changes, arguments))
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
        packed = record.pack(packed_changes(changes, arguments))
        wanted = record.pack((queues, patterns.packed(handles)))
        try:
            refused, values, kept_apart, has_dependents, went_wrong = self._run(
                "turn", worker, limit, wanted, packed, *arguments.values, meanwhile=meanwhile
            )
        except ScriptRefusal:
            raise _may_take_no_tasks(worker) from None
        if has_dependents:
            self._relay()
        applied = [True] * len(changes)
        for number in refused:
            applied[number] = False
        if went_wrong or record.without_parameters(values, kept_apart):
            tasks, failed = missing_records.readable(values, kept_apart)
            self.commit(failed)
            return applied, tasks + self.reserve(worker, queues, limit - len(tasks), handles)
        return applied, record.TasksReadLater(values, kept_apart) if values else []

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
        return missing_records.see_to_noted(self._server)

    @retry_after_mending
    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        return self._beat(worker, worker_codec.about(worker, number, nonce), reports)

    def _beat(self, worker: Worker, about: record.Raw, reports: Sequence[Report]) -> Beat:
        arguments = Arguments(fixed=4)
        packed = record.pack(worker_codec.packed(reports, arguments))
        try:
            return worker_codec.beat(
                self._run("beat", record.pack(about), packed, *arguments.values)
            )
        except ScriptRefusal:
            raise LeaseLost(
                f"worker {worker.id} lost its lease: it was given up as dead, or another process "
                "uses its identity. Its tasks may run elsewhere by now"
            ) from None

    @retry_after_mending
    def bury(self, judge: str, silent: dict[str, int]) -> list[Task]:
        wanted = record.pack([part for pair in silent.items() for part in pair])
        try:
            return _in_order(self._run("bury", judge, wanted))
        except ScriptRefusal:
            raise LeaseLost(
                f"worker {judge} is not registered, or was given up as dead: it can't judge"
            ) from None

    @retry_after_mending
    def holdings(self, worker: str, queues: Sequence[str] = ()) -> list[Task]:
        held = _in_order(self._run("holdings", worker))
        return [task for task in held if not queues or task.queue in queues]

    @retry_after_mending
    def workers(self) -> list[Worker]:
        return worker_codec.workers(self._run("workers"))

    @retry_after_mending
    def attend(self, workers: Sequence[str], seconds: float) -> None:
        if workers:
            self._run("attend", repr(float(seconds)), *workers)

    @retry_after_mending
    def drain_worker(self, worker: str) -> Worker:
        try:
            [found] = worker_codec.workers(self._run("drain_worker", worker))
        except ScriptRefusal as refusal:
            _refuse_drop(worker, refusal)
        return found

    @retry_after_mending
    def drop_worker(self, worker: str, number: int | None = None) -> list[Task]:
        try:
            return _in_order(self._run("drop_worker", worker, "" if number is None else number))
        except ScriptRefusal as refusal:
            _refuse_drop(worker, refusal)

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        return waiter_for(self._server, worker, queues)

    @retry_after_mending
    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        return watch(self._server, since, timeout, limit)

    @retry_after_mending
    def last_event(self) -> int:
        return reads.last_event(self._server)

    @retry_after_mending
    def get(self, ids: Sequence[str]) -> list[Task | None]:
        return reads.get(self._server, ids)

    @retry_after_mending
    def find(self, filter: Filter, cursor: str | None, limit: int) -> Page:
        return find(self._server, filter, cursor, limit)

    @retry_after_mending
    def upstreams(self, ids: Sequence[str]) -> list[Upstreams]:
        return ties.upstreams(self._server, ids)

    @retry_after_mending
    def waits(self, id: str, limit: int) -> tuple[list[str], int]:
        return ties.waits(self._server, id, limit)

    @retry_after_mending
    def flows(self, cursor: str | None, limit: int) -> FlowPage:
        return ties.flows(self._server, cursor, limit)

    @retry_after_mending
    def flow(self, id: str) -> FlowInfo | None:
        return ties.flow(self._server, id)

    @retry_after_mending
    def peek(self, queue: str, limit: int) -> list[Task]:
        return record.tasks(*self._run("peek", queue, limit))

    @retry_after_mending
    def ahead(self, id: str) -> int:
        return int(self._run("ahead", id))

    @retry_after_mending
    def durations(self, queue: str, limit: int) -> list[tuple[str, float]]:
        return reads.durations(self._run("durations", queue, limit))

    @retry_after_mending
    def failures(self, queues: Sequence[str], limit: int) -> Failures:
        return failures.find([(self._server, queues)], limit)

    @retry_after_mending
    def attempts(self, id: str) -> list[Attempt]:
        return reads.attempts(self._server, id)

    @retry_after_mending
    def events(self, id: str) -> list[Event]:
        return reads.events(self._server, id)

    @retry_after_mending
    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        return reads.log(self._server, id, attempt, start, limit)

    @retry_after_mending
    def usage(self, id: str, attempt: int) -> list[Usage]:
        return reads.usage(self._server, id, attempt)

    @retry_after_mending
    def checkpoint(self, id: str) -> Checkpoint | None:
        return reads.checkpoint(self._server, id)

    @retry_after_mending
    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        return reads.queues(self._run("queues", *names))

    @retry_after_mending
    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        most = QUEUE["key_limits"].items
        try:
            answer = self._run("set_queue", name, record.pack(_packed_settings(settings)), most)
        except ScriptRefusal as refusal:
            refuse_key_limits(int(refusal.details))
            raise
        return reads.queues(answer)[0]

    @retry_after_mending
    def sample(self) -> float:
        if queue_stats.sample(self._server):
            missing_records.look(self._server)
        return 60.0 - self.now() % 60.0

    @retry_after_mending
    def figures(
        self, since: float, until: float, step: int, queues: Sequence[str] | None
    ) -> list[Figures]:
        return queue_stats.figures(self._server, since, until, step, queues)

    @retry_after_mending
    def drop_queue(self, name: str, limit: int) -> int:
        try:
            return int(self._run("drop_queue", name, limit))
        except ScriptRefusal as refusal:
            if refusal.word == "UNKNOWN":
                raise UnknownQueue(
                    f"no queue {name!r}: `stayer queues` lists those there are"
                ) from None
            raise Refused(
                f"queue {name} has {refusal.details} running tasks: cancel them and wait for their "
                "end first"
            ) from None

    @retry_after_mending
    def purge(
        self, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
    ) -> list[str]:
        among = record.pack(False if ids is None else ids)
        gone = self._run("purge", repr(float(before)), limit, record.pack(states), among)
        return [id.decode() for id in gone]

    @retry_after_mending
    def forget(self, retention: Mapping[Kept, float], limit: int) -> int:
        return int(self._run("forget", limit, _retention(retention)))

    @retry_after_mending
    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        return notices.take_notices(self._server, hooks, limit, lease, age)

    @retry_after_mending
    def settle_notice(self, notice: Notice, delivery: Delivery) -> bool:
        return notices.settle_notice(self._server, notice, delivery)

    @retry_after_mending
    def notices(
        self, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
    ) -> NoticePage:
        return notices.page(self._server, task, state, cursor, limit)

    @retry_after_mending
    def retry_notices(self, ids: Sequence[str]) -> int:
        return int(self._run("retry_notices", *ids))

    @retry_after_mending
    def drop_notices(self, ids: Sequence[str]) -> int:
        return int(self._run("drop_notices", *ids))

    @retry_after_mending
    def schedules(self, names: Sequence[str] = ()) -> list[Schedule]:
        return schedules.schedules(self._server, names)

    @retry_after_mending
    def due_schedules(self, limit: int) -> list[Schedule]:
        return schedules.due_schedules(self._server, limit)

    @retry_after_mending
    def put_schedule(self, schedule: Schedule, seen: float | None = None) -> Schedule:
        return schedules.put_schedule(self._server, schedule, seen)

    @retry_after_mending
    def fire(self, firing: Firing) -> bool:
        return schedules.fire(self._server, firing)

    @retry_after_mending
    def drop_schedule(self, name: str) -> bool:
        return schedules.drop_schedule(self._server, name)


def _retention(retention: Mapping[Kept, float | None]) -> bytes:
    """For how long what is kept, as the scripts get it."""
    pairs = [(what, False if keep is None else float(keep)) for what, keep in retention.items()]
    return record.pack([part for pair in pairs for part in pair])


def _packed_settings(settings: QueueSettings) -> dict[str, record.Raw]:
    """Pack settings as the script gets them: false takes one away."""
    packed: dict[str, record.Raw] = {
        field: False if value is None else value for field, value in settings.items()
    }
    if "paused" in settings:
        packed["paused"] = int(settings["paused"])
    for field in ("key_limits", "retention"):
        if field in packed:
            packed[field] = {
                key: False if value is None else value for key, value in packed[field].items()
            }
    if "notify" in settings:
        packed["notify"] = "\n".join(settings["notify"]) or False
    if rate := settings.get("rate"):
        packed["rate"] = (rate.count, rate.per)
    return packed


def _in_order(answer: record.Raw) -> list[Task]:
    """Read tasks, and sort them as they came into the store."""
    values, kept_apart = answer
    numbers = [record.created_and_seq(value)[1] for value in values]
    found = zip(numbers, record.tasks(values, kept_apart), strict=True)
    return [task for _, task in sorted(found, key=lambda each: each[0])]


def _may_take_no_tasks(worker: str) -> LeaseLost:
    return LeaseLost(
        f"worker {worker} is not registered, or was given up as dead: it may take no tasks"
    )


def _refuse_drop(worker: str, refusal: ScriptRefusal) -> NoReturn:
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
