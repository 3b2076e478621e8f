"""Workers across shards.

All are known in the lobby, a shard without tasks: there they register and beat first, there they
are suspected and judged. The shards that a worker takes tasks from, its homes, know it as a store
knows a worker, so that each can refuse one that is dead in the step in which it would give it
something. A burial is a verdict in the lobby, then a tombstone in each home; who is to be buried is
written down first, so that anybody can go on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from stayer.core.errors import LeaseLost, UnknownWorker
from stayer.core.model import Beat, Orders, Report, Task, Worker
from stayer.stores.redis import RedisStore, record
from stayer.stores.redis.cluster.shards import LOBBY, Shards
from stayer.stores.redis.keys import key


class Workers:
    """Registers, beats, buries."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._homes: dict[str, list[str]] = {}
        self._lessons = 0

    # Beating

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """In the lobby and then in every home, with the same number; good if all have taken it."""
        if number == 1 and self._is_being_buried(worker.id):
            raise LeaseLost(f"worker {worker.id} was given up as dead")
        answer = self._lobby().beat(worker, number, nonce, ())
        if number == 1:
            self._move_in(worker.id, worker.queues)
        elif self._lessons != self._shards.nodes.lessons:
            # A node may have been replaced by one that had not heard of all.
            self._lessons = self._shards.nodes.lessons
            self._move_in(worker.id, self._homes_of(worker.id))
        places = self._shards.by_place([report.id for report in reports], reports)
        orders: list[Orders] = []
        for home in self._homes_of(worker.id):
            told = [report for _, report in places.get(home, [])]
            orders += self._beat_at(home, worker, number, nonce, told).orders
        if number == 1:
            self._check_alive(worker.id, self._homes_of(worker.id))
        return replace(answer, orders=tuple(orders))

    def _beat_at(
        self, home: str, worker: Worker, number: int, nonce: str, reports: Sequence[Report]
    ) -> Beat:
        shard = self._shards.of(home)
        try:
            return shard.beat(worker, number, nonce, reports)
        except LeaseLost:
            if number == 1:
                raise
        # Whoever wanted to introduce it there came no further than to write it down.
        shard.beat(worker, 1, nonce, ())
        self._check_alive(worker.id, [home])
        return shard.beat(worker, number, nonce, reports)

    def introduce(self, worker: str, queue: str) -> bool:
        """Let a shard know a worker that the lobby knows; False if it may not take tasks."""
        known = self._find(worker)
        if known is None:
            return False
        self._move_in(worker, [queue])
        try:
            self._shards.of(queue).beat(known, 1, "introduced", ())
            self._check_alive(worker, [queue])
        except LeaseLost:
            return False  # it was buried there
        return True

    def _check_alive(self, worker: str, homes: list[str]) -> None:
        """To be called when these have got to know it. Whoever buried it meanwhile may have been
        there too early to find it: then it is buried once more.
        """
        if self._find(worker) is not None:
            return
        self._move_in(worker, homes)
        self._write_down([worker])
        for home in homes:
            self._bury(worker, home)
        raise LeaseLost(f"worker {worker} was given up as dead")

    # Burying

    def bury(self, judge: str, silent: dict[str, int]) -> list[Task]:
        """The verdict, and what follows from this one and earlier ones."""
        if silent:
            self._write_down({worker.id for worker in self._lobby().workers()} & set(silent))
        self._lobby().bury(judge, silent)
        return self._carry_out()

    def drop(self, worker: str, number: int | None) -> list[Task]:
        """The verdict of somebody who knows."""
        self._write_down([worker])
        try:
            self._lobby().drop_worker(worker, number)
        except UnknownWorker:
            if not self._read_homes(worker):
                self._cross_out(worker)
                raise
        return [task for task in self._carry_out() if task.worker == worker]

    def _write_down(self, workers: Iterable[str]) -> None:
        self._shards.nodes.enlist("burying", workers)

    def _cross_out(self, worker: str) -> None:
        """One that was refused stays written down, for another may have judged it meanwhile."""
        name = key("burying", self._shards.nodes.options.prefix)
        self._shards.nodes.ask(name, "SREM", name, worker)

    def _is_being_buried(self, worker: str) -> bool:
        name = key("burying", self._shards.nodes.options.prefix)
        written = self._shards.nodes.ask(name, "SISMEMBER", name, worker) == 1
        return written and self._find(worker) is None

    def _carry_out(self) -> list[Task]:
        """Bury in their homes all that are written down and that the lobby does not know."""
        name = key("burying", self._shards.nodes.options.prefix)
        written = {each.decode() for each in self._shards.nodes.ask(name, "SMEMBERS", name)}
        alive = {worker.id for worker in self._lobby().workers()} if written else set()
        lost: list[Task] = []
        for worker in sorted(written - alive):
            held = [task for home in self._read_homes(worker) for task in self._bury(worker, home)]
            if not held:
                homes = key("homes", self._shards.nodes.options.prefix, worker=worker)
                self._shards.nodes.ask(homes, "DEL", homes)
                self._cross_out(worker)
            lost += held
        return _oldest_first(lost)

    def _bury(self, worker: str, home: str) -> list[Task]:
        return record.tasks(*self._shards.server_of(home).run("bury_here", worker))

    # Looking

    def holdings(self, worker: str) -> list[Task]:
        """From all homes, which another process may have added to."""
        homes = self._read_homes(worker)
        return _oldest_first(
            task for home in homes for task in self._shards.of(home).holdings(worker)
        )

    def all(self, queues: Iterable[str]) -> list[Worker]:
        """As the lobby sees them, with what they hold in the shards of these queues."""
        running: dict[str, int] = {}
        for queue in queues:
            for each in self._shards.of(queue).workers():
                running[each.id] = running.get(each.id, 0) + each.running
        return [_with_tasks(each, running.get(each.id, 0)) for each in self._lobby().workers()]

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        self._lobby().attend(workers, seconds)

    def drain(self, worker: str) -> Worker:
        known = self._lobby().drain_worker(worker)
        for home in self._read_homes(worker):
            with suppress(UnknownWorker):  # there they need not wait for its next beat
                self._shards.of(home).drain_worker(worker)
        return _with_tasks(known, len(self.holdings(worker)))

    def homes(self, worker: str) -> list[str]:
        """The shards that may have orders for it."""
        return self._homes_of(worker)

    # Homes

    def _move_in(self, worker: str, queues: Iterable[str]) -> None:
        """Before it is known there, so that whoever looks for it will look there."""
        wanted = list(dict.fromkeys(queues))
        self._shards.add(wanted)
        self._shards.nodes.enlist("homes", wanted, worker)
        self._homes.pop(worker, None)

    def _homes_of(self, worker: str) -> list[str]:
        if worker not in self._homes:
            self._homes[worker] = self._read_homes(worker)
        return self._homes[worker]

    def _read_homes(self, worker: str) -> list[str]:
        name = key("homes", self._shards.nodes.options.prefix, worker=worker)
        return sorted(each.decode() for each in self._shards.nodes.ask(name, "SMEMBERS", name))

    def _lobby(self) -> RedisStore:
        return self._shards.of(LOBBY)

    def _find(self, worker: str) -> Worker | None:
        return next((each for each in self._lobby().workers() if each.id == worker), None)


def _with_tasks(worker: Worker, running: int) -> Worker:
    idle = worker.state == "IDLE" and running > 0
    return replace(worker, running=running, state="PROCESSING" if idle else worker.state)


def _oldest_first(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: task.created)
