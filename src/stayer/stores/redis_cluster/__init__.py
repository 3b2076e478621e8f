"""Redis Cluster: a store a queue, and idempotent steps between them (see decision 11)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar, Unpack

from stayer.core.errors import StoreError, StoreUnusable
from stayer.core.flows.model import FlowInfo, FlowPage, NewFlow
from stayer.core.insight.failures import Failures
from stayer.core.insight.health import Finding
from stayer.core.model import (
    Attempt,
    Change,
    Checkpoint,
    Event,
    LogPiece,
    NewTask,
    Statistics,
    Submitted,
    Task,
    Usage,
)
from stayer.core.notify.notices import Delivery, Notice, NoticePage, NoticeState
from stayer.core.queue_model import QueueInfo, QueueSettings
from stayer.core.worker_model import Handles, Worker
from stayer.store import Meanwhile, Store, Waiter
from stayer.stores.redis import failures
from stayer.stores.redis.damage import retry_after_mending
from stayer.stores.redis.flows import FlowKnown
from stayer.stores.redis.health import refuse_too_few_rights, server_version
from stayer.stores.redis.notices import check_cursor, merge_pages
from stayer.stores.redis_cluster import (
    cross_shard,
    event_relay,
    incoming,
    merged_reads,
    move,
    promotion,
    retention_sweep,
)
from stayer.stores.redis_cluster import schedules as schedule_calls
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.health import check, check_queues
from stayer.stores.redis_cluster.lost_replies import LostReplies
from stayer.stores.redis_cluster.nodes import Nodes
from stayer.stores.redis_cluster.router import REGISTRY, Shards
from stayer.stores.redis_cluster.two_phase import name_of
from stayer.stores.redis_cluster.workers import Workers

P = ParamSpec("P")
R = TypeVar("R")

OLDEST = (7, 0)
_RELAY_BATCH, _RELAY_ROUNDS = 500, 8
"""How many dependents hear of an end in one step, and how many of these follow a commit."""
_TAKEN_IN = 1000
"""How many items from outside are taken at once, when all are to be."""


def open_store(url: str, clock: Callable[[], float] | None = None) -> ClusterStore:
    """`redis+cluster://host:6379,host:6379`: some of its nodes."""
    return ClusterStore(Nodes(url, clock), clock)


def _at_shards(
    operation: Callable[Concatenate[Shards, P], R],
) -> Callable[Concatenate[ClusterStore, P], R]:
    """Make a method of an operation that takes the shards first."""

    @functools.wraps(operation)
    def call(store: ClusterStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return operation(store._shards, *args, **kwargs)

    return call


def _of_workers(
    operation: Callable[Concatenate[Workers, P], R],
) -> Callable[Concatenate[ClusterStore, P], R]:
    """Make a method of an operation of the workers."""

    @functools.wraps(operation)
    def call(store: ClusterStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return operation(store._workers, *args, **kwargs)

    return call


class ClusterStore(Store):
    """The contract on a cluster: within a queue each operation is one step, across queues several
    that may each be done again.
    """

    a_turn = 500
    in_parts = True
    has_incoming = True

    def __init__(self, nodes: Nodes, clock: Callable[[], float] | None) -> None:
        self.url = nodes.url
        self._nodes = nodes
        self._clock = clock
        self._shards = Shards(nodes, clock)
        self._workers = Workers(self._shards)
        self._lost_replies = LostReplies(self._workers.introduce)
        self.mending = self._shards
        """Only for what may be asked twice: what is done once is mended shard by shard."""

    # Life

    def setup(self) -> None:
        fan_out = FanOut(self._shards)
        for server in self._nodes.primaries():
            version = fan_out.attempt(partial(server_version, server))
            if version is not None and version < OLDEST:
                shown, wanted = (".".join(map(str, each)) for each in (version, OLDEST))
                raise StoreUnusable(
                    f"{self.url} has a node of version {shown}: clusters need {wanted} or newer"
                )
        fan_out.check()
        fan_out.attempt(partial(refuse_too_few_rights, self._shards.server_of(REGISTRY)))

    def close(self) -> None:
        self._nodes.close()

    def check(self) -> list[Finding]:
        return [*check(self._nodes), *check_queues(self._shards)]

    def now(self) -> float:
        return self._shards.now()

    def identity(self) -> str:
        return self._shards.identity()

    # The one road

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        if any(new.after or new.behind for new in tasks):
            answers = self._shards.plans.submit(tasks)
            self._relay()
            return answers
        return self._shards.submit(tasks) if tasks else []

    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        try:
            self._shards.plans.submit(tasks, flow)
        except FlowKnown:
            return False
        self._relay()
        return True

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        given: list[Task] = []
        fan_out = FanOut(self._shards)
        self._lost_replies.look(fan_out, worker, queues)
        for queue in dict.fromkeys(queues):
            if fan_out.is_sound(queue):
                room, shard = limit - len(given), self._shards.of(queue)
                step = partial(shard.reserve, worker, [queue], room, handles)
                given += self._lost_replies.ask(fan_out, worker, queue, step) or ()
        fan_out.check()
        self._shards.remember(given)
        return given

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        answers = self._commit_again(changes)
        self._relay()
        return answers

    def _relay(self) -> None:
        """Let dependents hear of what has ended; workers do the rest, if there are many."""
        queues = self._shards.take_ended()
        with suppress(StoreError):  # the change itself is made, and that must be answered
            cross_shard.relay(FanOut(self._shards), queues, _RELAY_BATCH, _RELAY_ROUNDS)

    def _commit_again(self, changes: Sequence[Change]) -> list[Task | None]:
        places = self._shards.places([change.id for change in changes])
        answers = self._commit(changes, places)
        missed = [number for number, task in enumerate(answers) if task is None]
        if missed:
            # A place that was remembered may be one of the past. If it is not, the answer stands:
            # a change of the same batch that came later must not let this one in.
            named = [changes[number].id for number in missed]
            self._shards.forget(named)
            anew = self._shards.places(named)
            missed = [at for at in missed if anew.get(changes[at].id) != places.get(changes[at].id)]
            again = self._commit([changes[number] for number in missed], anew)
            for number, task in zip(missed, again, strict=True):
                answers[number] = task
        return answers

    def _commit(self, changes: Sequence[Change], places: Mapping[str, str]) -> list[Task | None]:
        answers: list[Task | None] = [None] * len(changes)
        waits = [
            (places[c.id], c.effect.waits) for c in changes if c.effect.waits and c.id in places
        ]
        cross_shard.listen(self._shards, waits, {})
        for queue, numbered in cross_shard.in_order(changes, places):
            tasks = self._shards.of(queue).commit([change for _, change in numbered])
            for (number, _), task in zip(numbered, tasks, strict=True):
                answers[number] = task
        return answers

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
            meanwhile()  # several are asked, one after the other
        places = self._shards.by_place([change.id for change in changes], changes)
        answers = [False] * len(changes)
        given: list[Task] = []
        fan_out = FanOut(self._shards)
        wanted = list(dict.fromkeys(queues))
        self._lost_replies.look(fan_out, worker, wanted if limit > 0 else ())
        # First where there is only something to tell, so that places become free.
        for queue in [*(set(places) - {*wanted, ""}), *wanted]:
            numbered = places.get(queue, [])
            room = limit - len(given) if queue in wanted else 0
            if not numbered and not room and queue != wanted[0]:
                continue  # the first one is asked in any case: it says if the worker is dead
            changes_of = [change for _, change in numbered]
            if room and not fan_out.is_sound(queue):
                if not changes_of:
                    continue
                room = 0
            step = partial(self._shards.of(queue).turn, worker, changes_of, [queue], room, handles)
            answer = self._lost_replies.ask(fan_out, worker, queue, step, wants_tasks=room > 0)
            if answer is None:
                continue  # what could not be sent is sent again
            for (number, _), each in zip(numbered, answer[0], strict=True):
                answers[number] = each
            given += answer[1]
        fan_out.check()
        self._shards.remember(given)
        self._relay()
        return answers, given

    @retry_after_mending
    def promote(self, limit: int) -> float | None:
        return promotion.promote(self._shards, self.commit, limit)

    # Workers

    beat = retry_after_mending(_of_workers(Workers.beat))
    declare_lost = retry_after_mending(_of_workers(Workers.declare_lost))
    holdings = retry_after_mending(_of_workers(Workers.holdings))
    attend = retry_after_mending(_of_workers(Workers.attend))
    report = retry_after_mending(_of_workers(Workers.report))
    record_once = retry_after_mending(_of_workers(Workers.record_once))
    read_shared = retry_after_mending(_of_workers(Workers.read_shared))
    put_shared = _of_workers(Workers.put_shared)
    read_record = retry_after_mending(_of_workers(Workers.read_record))
    workers_of = retry_after_mending(_of_workers(Workers.list_seen))
    lost_workers = retry_after_mending(_of_workers(Workers.list_lost))
    drain_worker = _of_workers(Workers.drain)
    order_worker = _of_workers(Workers.order)
    drop_worker = _of_workers(Workers.drop)

    @retry_after_mending
    def workers(self) -> list[Worker]:
        return self._workers.all(self._shards.names())

    # Moving

    def count_incoming(self) -> int:
        return incoming.count_waiting(self._shards)

    def take_in(self) -> None:
        self._shards.plans.sweep()
        while incoming.take(FanOut(self._shards), self.commit, _TAKEN_IN):
            pass

    seal = retry_after_mending(_at_shards(move.seal))
    dump = retry_after_mending(_at_shards(move.dump))
    put_seal = _at_shards(move.put_seal)
    load = _at_shards(move.load)

    # Hearing

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        homes = [] if worker is None else self._workers.homes(worker)
        return event_relay.waiter_for(self._shards, worker, queues, homes)

    watch = retry_after_mending(_at_shards(event_relay.watch))
    last_event = retry_after_mending(_at_shards(event_relay.last_event))

    # Reading

    get = retry_after_mending(_at_shards(Shards.get))
    find = retry_after_mending(_at_shards(merged_reads.find))
    upstreams = retry_after_mending(_at_shards(merged_reads.upstreams))
    reach = retry_after_mending(_at_shards(merged_reads.reach))
    figures = retry_after_mending(_at_shards(merged_reads.figures))

    @retry_after_mending
    def waits(self, id: str, limit: int) -> tuple[list[str], int]:
        queue = self._place(id)
        return ([], 0) if queue is None else self._shards.of(queue).waits(id, limit)

    @retry_after_mending
    def flows(self, cursor: str | None, limit: int) -> FlowPage:
        self._shards.plans.sweep()
        return cross_shard.flows(self._shards, cursor, limit)

    @retry_after_mending
    def flow(self, id: str) -> FlowInfo | None:
        self._shards.plans.finish_one(name_of(id))
        return cross_shard.flow(self._shards, id)

    @retry_after_mending
    def peek(self, queue: str, limit: int) -> list[Task]:
        return self._shards.of(queue).peek(queue, limit)

    @retry_after_mending
    def ahead(self, id: str) -> int:
        return 0 if (queue := self._place(id)) is None else self._shards.of(queue).ahead(id)

    @retry_after_mending
    def durations(self, queue: str, limit: int) -> list[tuple[str, float]]:
        return self._shards.of(queue).durations(queue, limit)

    @retry_after_mending
    def failures(self, queues: Sequence[str], limit: int) -> Failures:
        names = dict.fromkeys(queues) or self._shards.names()
        return failures.find([(self._shards.server_of(name), [name]) for name in names], limit)

    @retry_after_mending
    def attempts(self, id: str) -> list[Attempt]:
        return [] if (queue := self._place(id)) is None else self._shards.of(queue).attempts(id)

    @retry_after_mending
    def events(self, id: str) -> list[Event]:
        return [] if (queue := self._place(id)) is None else self._shards.of(queue).events(id)

    @retry_after_mending
    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        queue = self._place(id)
        return [] if queue is None else self._shards.of(queue).log(id, attempt, start, limit)

    @retry_after_mending
    def usage(self, id: str, attempt: int) -> list[Usage]:
        queue = self._place(id)
        return [] if queue is None else self._shards.of(queue).usage(id, attempt)

    @retry_after_mending
    def statistics(self, id: str, attempt: int) -> Statistics | None:
        queue = self._place(id)
        return None if queue is None else self._shards.of(queue).statistics(id, attempt)

    @retry_after_mending
    def checkpoint(self, id: str) -> Checkpoint | None:
        return None if (queue := self._place(id)) is None else self._shards.of(queue).checkpoint(id)

    def _place(self, id: str) -> str | None:
        return self._shards.places([id]).get(id)

    # Queues and history

    drop_queue = _at_shards(retention_sweep.drop_queue)
    purge = retry_after_mending(_at_shards(retention_sweep.purge))
    forget = retry_after_mending(_at_shards(retention_sweep.forget))

    @retry_after_mending
    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        wanted = sorted(set(names)) or self._shards.names()
        return [info for name in wanted for info in self._shards.of(name).queues([name])]

    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        self._shards.add([name])
        return self._shards.of(name).set_queue(name, **settings)

    @retry_after_mending
    def sample(self) -> float:
        # In the registry shard nothing ever happens: so it counts the minutes without tasks.
        fan_out = FanOut(self._shards)
        moments = [fan_out.attempt(self._shards.of(REGISTRY).sample)]
        moments += fan_out.each(lambda shard: shard.sample())
        fan_out.check()
        return min(moment for moment in moments if moment is not None)

    # Notices

    @retry_after_mending
    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        found: list[Notice] = []
        fan_out = FanOut(self._shards)
        for name in self._shards.names():
            take = partial(self._shards.of(name).take_notices, hooks, limit - len(found))
            found += fan_out.at(name, partial(take, lease, age)) or ()
        fan_out.check()
        return found

    def add_notices(self, found: Sequence[Notice]) -> None:
        for each in found:
            self._shards.of(each.queue).add_notices([each])

    def settle_notice(self, notice: Notice, delivery: Delivery) -> bool:
        return self._shards.of(notice.queue).settle_notice(notice, delivery)

    @retry_after_mending
    def notices(
        self, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
    ) -> NoticePage:
        check_cursor(cursor)
        pages = [shard.notices(task, state, cursor, limit) for shard in self._shards.all()]
        return merge_pages(pages, limit)

    def retry_notices(self, ids: Sequence[str]) -> int:
        return sum(shard.retry_notices(ids) for shard in self._shards.all())

    def drop_notices(self, ids: Sequence[str]) -> int:
        return sum(shard.drop_notices(ids) for shard in self._shards.all())

    # Files: all in the registry shard, for a task of any queue

    def put_file(self, sha256: str, data: bytes | None) -> bool:
        return self._shards.of(REGISTRY).put_file(sha256, data)

    def get_file(self, sha256: str) -> bytes | None:
        return self._shards.of(REGISTRY).get_file(sha256)

    def old_files(self, before: float, limit: int) -> list[str]:
        return self._shards.of(REGISTRY).old_files(before, limit)

    def drop_files(self, files: Sequence[str], before: float) -> None:
        self._shards.of(REGISTRY).drop_files(files, before)

    # Schedules

    schedules = retry_after_mending(_at_shards(schedule_calls.schedules))
    due_schedules = retry_after_mending(_at_shards(schedule_calls.due_schedules))
    put_schedule = _at_shards(schedule_calls.put_schedule)
    fire = _at_shards(schedule_calls.fire)
    drop_schedule = _at_shards(schedule_calls.drop_schedule)
