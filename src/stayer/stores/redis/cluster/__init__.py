"""Redis Cluster: a store a queue, and idempotent steps between them (see decision 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET, UnsetType

from stayer.core.errors import LeaseLost, StoreUnreachable, StoreUnusable
from stayer.core.model import (
    Attempt,
    Beat,
    Change,
    Checkpoint,
    Event,
    Filter,
    Handles,
    LogPiece,
    NewTask,
    Page,
    QueueInfo,
    Report,
    State,
    Submitted,
    Task,
    Usage,
    Worker,
)
from stayer.store import Waiter
from stayer.stores.findings import Finding
from stayer.stores.redis.check import check, server_version
from stayer.stores.redis.cluster import listing, news
from stayer.stores.redis.cluster.claims import Claim
from stayer.stores.redis.cluster.hands import Workers
from stayer.stores.redis.cluster.nodes import Nodes
from stayer.stores.redis.cluster.shards import Shards
from stayer.stores.redis.keys import key

OLDEST = (7, 0)


def open_store(url: str, clock: Callable[[], float] | None = None) -> ClusterStore:
    """`redis+cluster://host:6379,host:6379`: some of its nodes."""
    return ClusterStore(Nodes(url, clock), clock)


class ClusterStore:
    """The contract on a cluster: within a queue each operation is one step, across queues several
    that may each be done again.
    """

    def __init__(self, nodes: Nodes, clock: Callable[[], float] | None) -> None:
        self.url = nodes.url
        self._nodes = nodes
        self._clock = clock
        self._shards = Shards(nodes, clock)
        self._workers = Workers(self._shards)

    # Life

    def setup(self) -> None:
        for server in self._nodes.primaries():
            version = server_version(server)
            if version is not None and version < OLDEST:
                shown, wanted = (".".join(map(str, each)) for each in (version, OLDEST))
                raise StoreUnusable(
                    f"{self.url} has a node of version {shown}: clusters need {wanted} or newer"
                )

    def close(self) -> None:
        self._nodes.close()

    def check(self) -> list[Finding]:
        return [finding for server in self._nodes.primaries() for finding in check(server)]

    def now(self) -> float:
        name = key("shards", self._nodes.options.prefix)
        return self._nodes.at(name, lambda server: server.now())

    # The one road

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        return self._shards.submit(tasks) if tasks else []

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        given: list[Task] = []
        for queue in dict.fromkeys(queues):
            try:
                given += self._reserve(worker, queue, limit - len(given), handles)
            except StoreUnreachable:
                if not given:
                    raise
                break  # what was given is given
        self._shards.remember(given)
        return given

    def _reserve(self, worker: str, queue: str, limit: int, handles: Handles) -> list[Task]:
        try:
            return self._shards.of(queue).reserve(worker, [queue], limit, handles)
        except LeaseLost:
            if not self._workers.introduce(worker, queue):
                raise
        return self._shards.of(queue).reserve(worker, [queue], limit, handles)

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        applied = self._commit(changes)
        missed = [number for number, task in enumerate(applied) if task is None]
        if missed:
            # A place that was remembered may be one of the past.
            self._shards.forget(changes[number].id for number in missed)
            again = self._commit([changes[number] for number in missed])
            for number, task in zip(missed, again, strict=True):
                applied[number] = task
        return applied

    def _commit(self, changes: Sequence[Change]) -> list[Task | None]:
        applied: list[Task | None] = [None] * len(changes)
        places = self._shards.by_place([change.id for change in changes], changes)
        for queue, numbered in places.items():
            if queue:
                tasks = self._shards.of(queue).commit([change for _, change in numbered])
                for (number, _), task in zip(numbered, tasks, strict=True):
                    applied[number] = task
        return applied

    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
    ) -> tuple[list[bool], list[Task]]:
        places = self._shards.by_place([change.id for change in changes], changes)
        applied = [False] * len(changes)
        given: list[Task] = []
        wanted = list(dict.fromkeys(queues))
        # First where there is only something to tell, so that places become free.
        for queue in [*(set(places) - {*wanted, ""}), *wanted]:
            numbered = places.get(queue, [])
            room = limit - len(given) if queue in wanted else 0
            if not numbered and not room:
                continue
            told = [change for _, change in numbered]
            try:
                done, tasks = self._turn(worker, told, queue, room, handles)
            except StoreUnreachable:
                if not given and not any(applied):
                    raise
                break  # what was done is done; the rest is told again
            for (number, _), each in zip(numbered, done, strict=True):
                applied[number] = each
            given += tasks
        self._shards.remember(given)
        return applied, given

    def _turn(
        self, worker: str, changes: Sequence[Change], queue: str, limit: int, handles: Handles
    ) -> tuple[list[bool], list[Task]]:
        shard = self._shards.of(queue)
        try:
            return shard.turn(worker, changes, [queue], limit, handles)
        except LeaseLost:
            if not self._workers.introduce(worker, queue):
                raise
        return shard.turn(worker, changes, [queue], limit, handles)

    def promote(self, limit: int) -> float | None:
        due = [shard.promote(limit) for shard in self._shards.all()]
        return min((each for each in due if each is not None), default=None)

    # Workers

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        return self._workers.beat(worker, number, nonce, reports)

    def bury(self, judge: str, silent: dict[str, int]) -> list[Task]:
        return self._workers.bury(judge, silent)

    def holdings(self, worker: str) -> list[Task]:
        return self._workers.holdings(worker)

    def workers(self) -> list[Worker]:
        return self._workers.all()

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        self._workers.attend(workers, seconds)

    def drop_worker(self, worker: str, number: int | None = None) -> list[Task]:
        return self._workers.drop(worker, number)

    # Hearing

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        return news.waiter_for(self._shards, worker, queues)

    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        return news.watch(self._shards, since, timeout, limit)

    def last_event(self) -> int:
        return news.last_event(self._shards)

    # Reading

    def get(self, ids: Sequence[str]) -> list[Task | None]:
        return self._shards.get(ids)

    def find(self, filter: Filter, cursor: str | None, limit: int) -> Page:
        return listing.find(self._shards, filter, cursor, limit)

    def peek(self, queue: str, limit: int) -> list[Task]:
        return self._shards.of(queue).peek(queue, limit)

    def attempts(self, id: str) -> list[Attempt]:
        return [] if (queue := self._place(id)) is None else self._shards.of(queue).attempts(id)

    def events(self, id: str) -> list[Event]:
        return [] if (queue := self._place(id)) is None else self._shards.of(queue).events(id)

    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        queue = self._place(id)
        return [] if queue is None else self._shards.of(queue).log(id, attempt, start, limit)

    def usage(self, id: str, attempt: int) -> list[Usage]:
        queue = self._place(id)
        return [] if queue is None else self._shards.of(queue).usage(id, attempt)

    def checkpoint(self, id: str) -> Checkpoint | None:
        return None if (queue := self._place(id)) is None else self._shards.of(queue).checkpoint(id)

    def _place(self, id: str) -> str | None:
        return self._shards.places([id]).get(id)

    # Queues

    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        wanted = sorted(set(names)) or self._shards.names()
        return [info for name in wanted for info in self._shards.of(name).queues([name])]

    def set_queue(
        self, name: str, *, paused: bool | None = None, limit: int | UnsetType | None = UNSET
    ) -> QueueInfo:
        self._shards.add([name])
        return self._shards.of(name).set_queue(name, paused=paused, limit=limit)

    def drop_queue(self, name: str, limit: int) -> int:
        """In steps, so that the claims of what goes can be let go."""
        shard = self._shards.of(name)
        going = [task.id for task in self.find(Filter(queues=(name,)), None, limit).tasks]
        claims = self._claims(going)
        left = shard.drop_queue(name, limit)
        gone = [claim for claim in claims if shard.get([claim.id])[0] is None]
        self._let_go(gone)
        return left

    def purge(
        self, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
    ) -> list[str]:
        gone: list[str] = []
        if ids is None:
            for shard in self._shards.all():
                if len(gone) < limit:
                    gone += shard.purge(None, states, before, limit - len(gone))
            claims = self._claims(gone)
        else:
            claims = self._claims(ids)
            for queue, numbered in self._shards.by_place(ids, ids).items():
                if queue and len(gone) < limit:
                    some = [id for _, id in numbered]
                    gone += self._shards.of(queue).purge(some, states, before, limit - len(gone))
        went = set(gone)
        self._let_go([claim for claim in claims if claim.id in went])
        return gone

    def _claims(self, ids: Sequence[str]) -> list[Claim]:
        return [claim for claim in self._shards.claims.find(ids) if claim is not None]

    def _let_go(self, claims: Sequence[Claim]) -> None:
        self._shards.forget(claim.id for claim in claims)
        self._shards.claims.expire(claims)
