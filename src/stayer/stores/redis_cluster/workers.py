"""Workers across shards.

All are known in the registry shard, a shard without tasks: there they register and beat first,
there they are suspected and judged. The shards that a worker takes tasks from, its homes, know it
as a store knows a worker, so that each can refuse one that is dead in the step in which it would
give it something. A worker is declared lost by a verdict in the registry shard, then by a tombstone
in each home; who it is about is written down first, so that anybody can go on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic

from msgspec.structs import replace

from stayer.core.errors import LeaseLost, StoreUnreachable, UnknownWorker
from stayer.core.liveness.judge import BEATS_IN_A_LEASE
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import Report, Task
from stayer.core.worker_model import Beat, Worker, WorkerOrder
from stayer.store import SharedName
from stayer.stores.redis import RedisStore, leases, record
from stayer.stores.redis.keys import key
from stayer.stores.redis.replica_acks import Unconfirmed
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.router import REGISTRY, Shards

INTRODUCED = "introduced"
"""In the place of a nonce: good enough is that the worker is known there, and not as dead."""
BeatAt = Callable[[str, Worker, int, str, Sequence[Report]], Beat | None]


class Workers:
    """Registers, beats, declares lost."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._homes: dict[str, list[str]] = {}
        self._supposed: dict[str, Sequence[str]] = {}
        self._lessons = 0
        self._refused: dict[tuple[str, str], tuple[float, float]] = {}

    # Beating

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """Beat in the registry shard, then in every home, with the same number. It is good when the
        registry shard has taken it: only there is anybody judged. While that is away, it is good in
        the homes that have taken it: nobody is declared lost there before a lease has passed.
        """
        if number == 1 and self._is_being_declared_lost(worker.id):
            raise LeaseLost(f"worker {worker.id} was declared lost")
        self._supposed[worker.id] = worker.queues
        try:
            answer = self._registry().beat(worker, number, nonce, ())
        except StoreUnreachable:
            if number == 1:
                raise  # whoever is not known there would be missed by nobody
            alone = self._beat_alone(worker, number, nonce, reports)
            if alone is None:
                raise
            return alone
        if number == 1 and not self._try_move_in(worker.id, worker.queues):
            undelivered = tuple(report.id for report in reports)
            return replace(
                answer, away=tuple(dict.fromkeys(worker.queues)), undelivered=undelivered
            )
        if number > 1 and self._lessons != self._shards.nodes.lessons:
            self._register_again(worker.id)
        beats, undelivered = self._beat_at_homes(worker, number, nonce, reports, self._beat_at)
        if number == 1:
            self._check_alive(worker.id, list(beats))
        orders = (each for beat in beats.values() for each in beat.orders)
        away = tuple(home for home in self.homes(worker.id) if home not in beats)
        return replace(answer, orders=tuple(orders), away=away, undelivered=undelivered)

    def _beat_alone(
        self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]
    ) -> Beat | None:
        """Beat while the registry shard is away; None if no home has taken it either."""
        beats, undelivered = self._beat_at_homes(
            worker, number, nonce, reports, self._beat_alone_at
        )
        if not beats:
            return None
        orders = (each for beat in beats.values() for each in beat.orders)
        away = tuple(home for home in self.homes(worker.id) if home not in beats)
        now, proven = next(iter(beats.values())).now, tuple(beats)
        return Beat(
            now=now, orders=tuple(orders), away=away, undelivered=undelivered, proven=proven
        )

    def _beat_at_homes(
        self, worker: Worker, number: int, nonce: str, reports: Sequence[Report], beat_at: BeatAt
    ) -> tuple[dict[str, Beat], tuple[str, ...]]:
        """Return what those say that can be reached, and whose reports did not arrive."""
        fan_out, beats = FanOut(self._shards), dict[str, Beat]()
        places, undelivered = self._places_of(reports)
        for home in self.homes(worker.id):
            reports_here = places.get(home, [])
            answer = fan_out.at(home, partial(beat_at, home, worker, number, nonce, reports_here))
            if answer is None:
                undelivered += [report.id for report in reports_here]
            else:
                beats[home] = answer
        return beats, tuple(undelivered)

    def _places_of(self, reports: Sequence[Report]) -> tuple[dict[str, list[Report]], list[str]]:
        """Return the reports for each home, and those of which nobody can say where they belong."""
        places: dict[str, list[Report]] = {}
        undelivered: list[str] = []
        try:
            found = self._shards.places([report.id for report in reports])
        except StoreUnreachable:
            found = {}
            for report in reports:
                try:
                    found |= self._shards.places([report.id])
                except StoreUnreachable:
                    undelivered.append(report.id)
        for report in reports:
            places.setdefault(found.get(report.id, ""), []).append(report)
        return places, undelivered

    def _beat_at(
        self, home: str, worker: Worker, number: int, nonce: str, reports: Sequence[Report]
    ) -> Beat | None:
        """Beat at a home; None where it can't be known yet."""
        shard = self._shards.of(home)
        try:
            return shard.beat(worker, number, nonce, reports)
        except LeaseLost:
            if number == 1:
                raise
        # Whoever wanted to introduce it there came no further than to write it down.
        if not self._try_move_in(worker.id, [home]):
            return None
        self._register_at(worker, home)
        return shard.beat(worker, number, nonce, reports)

    def _beat_alone_at(
        self, home: str, worker: Worker, number: int, nonce: str, reports: Sequence[Report]
    ) -> Beat | None:
        """Beat at a home while the registry is away; None where it is not known, or no more: only
        the registry shard can say which.
        """
        try:
            return self._shards.of(home).beat_alone(worker, number, nonce, reports)
        except LeaseLost:
            return None

    def introduce(self, worker: str, queue: str) -> bool:
        """Let a shard know a worker that the registry shard knows; False if it may not take tasks.
        Raises StoreUnreachable if replicas don't confirm where to look for it: nothing is given.
        """
        known = self._find(worker)
        if known is None:
            return False
        self._move_in(worker, [queue])
        try:
            self._register_at(known, queue)
        except LeaseLost:
            return False  # it was declared lost there
        return True

    def _register_at(self, worker: Worker, home: str) -> None:
        """Register a worker at a home. It is given nothing there before it has proven to be alive
        since: whoever declared it lost meanwhile has not found it there.
        """
        shard = self._shards.server_of(home)
        self._shards.of(home).beat(worker, 1, INTRODUCED, ())
        self._check_alive(worker.id, [home])
        shard.ask("HDEL", key("worker", shard.address.prefix, worker=worker.id), "unproven")

    def _check_alive(self, worker: str, homes: list[str]) -> None:
        """To be called when these have got to know it. Whoever declared it lost meanwhile may have
        been there too early to find it: then it is declared lost once more. No replica need confirm
        that, for others do it again for all that is written down, until all is confirmed.
        """
        if self._find(worker) is not None:
            return
        self._shards.nodes.add_names("homes", homes, worker, waits=False)
        self._shards.nodes.add_names("declaring_lost", [worker], waits=False)
        for home in homes:
            with suppress(Unconfirmed):
                self._declare_lost_at(worker, home)
        raise LeaseLost(f"worker {worker} was declared lost")

    # Declaring lost

    def declare_lost(self, judge: str | None, silent: dict[str, int]) -> list[Task]:
        """Return the verdict, and what follows from this one and earlier ones."""
        if silent:
            self._write_down({worker.id for worker in self._registry().workers()} & set(silent))
        self._registry().declare_lost(judge, silent)
        return self._carry_out()

    def drop(self, worker: str, number: int | None = None, is_lost: bool = False) -> list[Task]:
        """Return the verdict of somebody who knows."""
        self._write_down([worker])
        try:
            self._registry().drop_worker(worker, number, is_lost)
        except UnknownWorker:
            if not self._read_homes(worker):
                self._cross_out(worker)
                raise
        return [task for task in self._carry_out() if task.worker == worker]

    def _write_down(self, workers: Iterable[str]) -> None:
        self._shards.nodes.add_names("declaring_lost", workers)

    def _cross_out(self, worker: str) -> None:
        """Cross out a worker that was declared lost. One that was refused stays written down, for
        another may have judged it meanwhile.
        """
        name = key("declaring_lost", self._shards.nodes.options.prefix)
        self._shards.nodes.ask(name, "SREM", name, worker)

    def _is_being_declared_lost(self, worker: str) -> bool:
        name = key("declaring_lost", self._shards.nodes.options.prefix)
        written = self._shards.nodes.ask(name, "SISMEMBER", name, worker) == 1
        return written and self._find(worker) is None

    def _carry_out(self) -> list[Task]:
        """Declare lost in their homes all that are written down and that the registry lacks."""
        name = key("declaring_lost", self._shards.nodes.options.prefix)
        written = {each.decode() for each in self._shards.nodes.ask(name, "SMEMBERS", name)}
        alive = {worker.id for worker in self._registry().workers()} if written else set()
        lost: list[Task] = []
        fan_out = FanOut(self._shards)
        for worker in sorted(written - alive):
            places = self._read_homes(worker)
            found = [
                fan_out.at(home, partial(self._declare_lost_at, worker, home)) for home in places
            ]
            held = [task for some in found for task in some or ()]
            if not held and None not in found:
                homes = key("homes", self._shards.nodes.options.prefix, worker=worker)
                self._shards.nodes.ask(homes, "DEL", homes)
                self._cross_out(worker)
            if held:
                with suppress(StoreUnreachable):  # for people only; while it holds some, said again
                    leases.note_lost_tasks(self._shards.server_of(REGISTRY), worker, held)
            lost += held
        return _oldest_first(lost)

    def _declare_lost_at(self, worker: str, home: str) -> list[Task] | None:
        """Return what it held there; None if it may still believe in a lease: its home has taken
        beats of which no judge can have heard, and takes none from now on.
        """
        since, lease = self._refused.get((worker, home), (0.0, 0.0))
        is_over = lease > 0 and monotonic() - since > lease * (1 + 1 / BEATS_IN_A_LEASE)
        answer = self._shards.server_of(home).run("declare_lost_here", worker, int(is_over))
        if len(answer) == 3:
            self._refused.setdefault((worker, home), (monotonic(), float(answer[2])))
            return None
        self._refused.pop((worker, home), None)
        return record.tasks(*answer)

    # Looking

    def holdings(self, worker: str, queues: Sequence[str] = ()) -> list[Task]:
        """List what a worker holds, from these queues, or all homes, which another process may have
        added to.
        """
        homes = list(dict.fromkeys(queues)) or self._read_homes(worker)
        held = [task for home in homes for task in self._shards.of(home).holdings(worker)]
        self._shards.remember(held)
        return _oldest_first(held)

    def list_lost(self) -> list[LostWorker]:
        """List those that were declared lost, as the registry shard knows them."""
        return self._registry().lost_workers()

    def all(self, queues: Iterable[str]) -> list[Worker]:
        """List them as the registry shard sees them, with what they hold in these queues."""
        running: dict[str, int] = {}
        for queue in queues:
            for each in self._shards.of(queue).workers():
                running[each.id] = running.get(each.id, 0) + each.running
        known = self._registry().workers()
        return [_with_tasks(each, running.get(each.id, 0)) for each in known]

    def list_seen(self, queues: Iterable[str]) -> list[Worker]:
        """List the workers of these queues; while the registry shard is away, as the shards see
        them: the newest that any has heard.
        """
        try:
            return self.all(queues)
        except StoreUnreachable:
            if not queues:
                raise
        newest: dict[str, Worker] = {}
        running: dict[str, int] = {}
        for queue in queues:
            for each in self._shards.of(queue).workers():
                running[each.id] = running.get(each.id, 0) + each.running
                if each.id not in newest or each.number > newest[each.id].number:
                    newest[each.id] = each
        known = sorted(newest.values(), key=lambda worker: (worker.started_at, worker.id))
        return [_with_tasks(each, running[each.id]) for each in known]

    def report(self, worker: str, reports: Sequence[Report]) -> list[bool]:
        """Take reports where their tasks are. Raises StoreUnreachable if one can't be told."""
        found = self._shards.places([report.id for report in reports])
        taken = [False] * len(reports)
        for home in dict.fromkeys(found.values()):
            here = [at for at, each in enumerate(reports) if found.get(each.id) == home]
            answers = self._shards.of(home).report(worker, [reports[at] for at in here])
            for at, answer in zip(here, answers, strict=True):
                taken[at] = answer
        return taken

    def record_once(self, key: str, value: str, seconds: float) -> str:
        return self._registry().record_once(key, value, seconds)

    def read_record(self, key: str) -> str | None:
        return self._registry().read_record(key)

    def read_shared(self, name: SharedName) -> str | None:
        return self._registry().read_shared(name)

    def put_shared(self, name: SharedName, value: str, known: str | None) -> bool:
        return self._registry().put_shared(name, value, known)

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        self._registry().attend(workers, seconds)

    def drain(self, worker: str) -> Worker:
        known = self._registry().drain_worker(worker)
        fan_out, running = FanOut(self._shards), 0
        for home in self._read_homes(worker):
            running += len(fan_out.at(home, partial(self._drain_at, home, worker)) or ())
        return _with_tasks(known, running)

    def order(self, worker: str, order: WorkerOrder) -> Worker | None:
        """Order it in the registry shard, whose answer to a beat brings it."""
        known = self._registry().order_worker(worker, order)
        if known is None or order.grace is None:
            return known
        return self.drain(worker)

    def _drain_at(self, home: str, worker: str) -> list[Task]:
        shard = self._shards.of(home)
        with suppress(UnknownWorker):  # there they need not wait for its next beat
            shard.drain_worker(worker)
        return shard.holdings(worker)

    def homes(self, worker: str) -> list[str]:
        """List the shards that may have orders for it: those of its queues, if nobody can say."""
        try:
            return self._homes_of(worker)
        except StoreUnreachable:
            return list(dict.fromkeys(self._supposed.get(worker, ())))

    # Homes

    def _move_in(self, worker: str, queues: Iterable[str]) -> None:
        """Before it is known there, so that whoever looks for it will look there."""
        wanted = list(dict.fromkeys(queues))
        self._shards.add(wanted)
        self._shards.nodes.add_names("homes", wanted, worker)
        self._homes.pop(worker, None)

    def _try_move_in(self, worker: str, queues: Sequence[str]) -> bool:
        """Note the homes of a worker for a beat, which is good without it: False if replicas don't
        confirm it. Then no shard may know the worker, so that each refuses it until a reserve, or a
        later beat, gets that done. Where they are known to be away, a beat does not wait for them.
        """
        self._shards.nodes.add_names("homes", queues, worker, waits=False)
        self._homes.pop(worker, None)
        if self._shards.server_of(REGISTRY).node().replicas.confirm is False:
            return False
        try:
            self._move_in(worker, queues)
        except Unconfirmed:
            return False
        return True

    def _register_again(self, worker: str) -> None:
        """Where it is: a node may have been replaced by one that had not heard of all. Replicas
        have confirmed it once, and a beat waits for nobody.
        """
        lessons, homes = self._shards.nodes.lessons, self.homes(worker)
        with suppress(StoreUnreachable):
            self._shards.register_again(homes)
            self._shards.nodes.add_names("homes", homes, worker, waits=False)
            self._lessons = lessons
            self._homes.pop(worker, None)

    def _homes_of(self, worker: str) -> list[str]:
        if worker not in self._homes:
            self._homes[worker] = self._read_homes(worker)
        return self._homes[worker]

    def _read_homes(self, worker: str) -> list[str]:
        name = key("homes", self._shards.nodes.options.prefix, worker=worker)
        return sorted(each.decode() for each in self._shards.nodes.ask(name, "SMEMBERS", name))

    def _registry(self) -> RedisStore:
        return self._shards.of(REGISTRY)

    def _find(self, worker: str) -> Worker | None:
        return next((each for each in self._registry().workers() if each.id == worker), None)


def _with_tasks(worker: Worker, running: int) -> Worker:
    idle = worker.state == "IDLE" and running > 0
    return replace(worker, running=running, state="PROCESSING" if idle else worker.state)


def _oldest_first(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: task.created)
