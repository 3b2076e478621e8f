"""Workers across shards: each shard that a worker takes tasks from knows it, as a store would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stayer.core.errors import LeaseLost, UnknownWorker
from stayer.core.model import Beat, Orders, Report, Suspect, Task, Worker
from stayer.stores.redis.cluster.shards import Shards
from stayer.stores.redis.keys import key

_LEASE_LOST = "worker {} is not registered, or was given up as dead: it may take no tasks"


class Workers:
    """Registers, beats, buries."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._homes: dict[str, set[str]] = {}

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """In every home, with the same number; good if all have taken it."""
        if number == 1:
            self._settle_in(worker.id, worker.queues)
        places = self._shards.by_place([report.id for report in reports], reports)
        answers, lost = [], None
        for queue in self._homes_of(worker.id):
            told = [report for _, report in places.get(queue, [])]
            try:
                answers.append(self._shards.of(queue).beat(worker, number, nonce, told))
            except LeaseLost as error:
                lost = error
        if lost is not None or not answers:
            raise lost or LeaseLost(_LEASE_LOST.format(worker.id))
        return _together(answers)

    def introduce(self, worker: str, queue: str) -> bool:
        """Let a shard know a worker that other shards know; False if it may not take tasks."""
        homes = self._read_homes(worker)
        if queue in homes:
            return False  # so it was buried there
        known = [self._find(worker, home) for home in homes]
        found = [each for each in known if each is not None]
        if not found or len(found) < len(known):
            return False
        self._settle_in(worker, [queue])
        newest = max(found, key=lambda each: each.number)
        self._shards.of(queue).beat(newest, 1, "introduced", ())
        return True

    def bury(self, judge: str, silent: dict[str, int]) -> list[Task]:
        """In the homes of the judge."""
        homes = self._homes_of(judge)
        if not homes:
            raise LeaseLost(f"worker {judge} is not registered, or was given up as dead")
        lost = [task for home in homes for task in self._shards.of(home).bury(judge, silent)]
        return _oldest_first(lost)

    def holdings(self, worker: str) -> list[Task]:
        """From all homes, which another process may have added to."""
        homes = self._read_homes(worker)
        held = [task for home in homes for task in self._shards.of(home).holdings(worker)]
        return _oldest_first(held)

    def all(self) -> list[Worker]:
        """Each once."""
        found: dict[str, Worker] = {}
        for shard in self._shards.all():
            for each in shard.workers():
                known = found.get(each.id)
                found[each.id] = each if known is None else _one(known, each)
        return sorted(found.values(), key=lambda each: (each.started_at, each.id))

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        """In all homes: the worker looks at all their answers."""
        for worker in workers:
            for home in self._read_homes(worker):
                self._shards.of(home).attend([worker], seconds)

    def drop(self, worker: str, number: int | None) -> list[Task]:
        """Everywhere, if nowhere is anything against it."""
        held: list[Task] = []
        unknown: UnknownWorker | None = None
        known = 0
        for home in self._read_homes(worker):
            try:
                held += self._shards.of(home).drop_worker(worker, number)
                known += 1
            except UnknownWorker as error:
                unknown = error
        if not known:
            raise unknown or UnknownWorker(
                f"no worker {worker!r}: `stayer workers` lists those there are"
            )
        self._forget(worker)
        return _oldest_first(held)

    def _settle_in(self, worker: str, queues: Iterable[str]) -> None:
        """Before it beats there, so that whoever looks for it will look there."""
        wanted = [*queues]
        self._shards.add(wanted)
        if wanted:
            name = key("homes", self._shards.nodes.options.prefix, worker=worker)
            self._shards.nodes.ask(name, "SADD", name, *wanted)
        self._homes.pop(worker, None)

    def _homes_of(self, worker: str) -> list[str]:
        if worker not in self._homes:
            self._homes[worker] = set(self._read_homes(worker))
        return sorted(self._homes[worker])

    def _read_homes(self, worker: str) -> list[str]:
        name = key("homes", self._shards.nodes.options.prefix, worker=worker)
        found = self._shards.nodes.ask(name, "SMEMBERS", name)
        return sorted(each.decode() for each in found)

    def _find(self, worker: str, home: str) -> Worker | None:
        return next((each for each in self._shards.of(home).workers() if each.id == worker), None)

    def _forget(self, worker: str) -> None:
        name = key("homes", self._shards.nodes.options.prefix, worker=worker)
        left = [home for home in self._read_homes(worker) if self._find(worker, home)]
        if not left and not self.holdings(worker):
            self._shards.nodes.ask(name, "DEL", name)
        self._homes.pop(worker, None)


def _together(answers: Sequence[Beat]) -> Beat:
    suspects: dict[str, Suspect] = {}
    orders: list[Orders] = []
    for answer in answers:
        orders += answer.orders
        for suspect in answer.suspects:
            known = suspects.get(suspect.worker)
            # Where it has been silent for longest its number is lowest.
            if known is None or suspect.number < known.number:
                suspects[suspect.worker] = suspect
    return Beat(
        now=min(answer.now for answer in answers),
        orders=tuple(orders),
        suspects=tuple(suspects.values()),
        watched=any(answer.watched for answer in answers),
    )


def _one(known: Worker, other: Worker) -> Worker:
    """A worker as two shards see it: whoever heard of it last knows best."""
    newer = max(known, other, key=lambda each: each.number)
    running = known.running + other.running
    state = newer.state
    if state == "IDLE" and running:
        state = "PROCESSING"
    started_at = min(known.started_at, other.started_at)
    return replace(newer, running=running, state=state, started_at=started_at)


def _oldest_first(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: task.created)
