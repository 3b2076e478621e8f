"""The contract once more, in plain dictionaries: what `test_model` holds every store against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Unpack

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stayer.core.errors import LeaseLost, Refused, UnknownQueue, UnknownWorker
from stayer.core.happenings import Due
from stayer.core.lifecycle import acknowledge, decide
from stayer.core.model import (
    FINISHED,
    QUEUED,
    RUNNING,
    Change,
    Ending,
    NewTask,
    Report,
    State,
    Task,
)
from stayer.core.queue_model import QueueSettings
from stayer.core.worker_model import Beat, Handles, Orders, Suspect, Worker, WorkerState
from stayer.store import REMEMBERED
from tests.contract.plain_order import Run, Settings, holds, share_of, usage_of_shares


class Lease(Struct):
    """A worker that has beaten."""

    worker: Worker
    number: int
    nonce: str
    beat_at: float
    end: float
    dead: bool = False


class Try(Struct):
    """One attempt."""

    attempt: int
    worker: str
    started: bool = False
    ending: Ending | None = None
    late: bool = False


class Plain:
    """All that a store knows; tasks are in the order in which they were accepted."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.tasks: dict[str, Task] = {}
        self.purged: dict[str, tuple[Task, float]] = {}
        self.settings: dict[str, Settings] = {}
        self.leases: dict[str, Lease] = {}
        self.tries: dict[str, list[Try]] = {}
        self.runs: list[Run] = []

    # Submit, reserve, commit

    def submit(self, new: NewTask) -> tuple[Task, bool]:
        if new.id in self.tasks:
            return self.tasks[new.id], False
        if new.id in self.purged:
            task, at = self.purged[new.id]
            if self.now() - at < REMEMBERED:
                return task, False
            del self.purged[new.id]
        if holders := self.holders(new.queue, new.unique):
            return holders[0], False
        eta = self.now() + new.delay if new.delay is not None else new.eta
        task = Task(
            id=new.id,
            queue=new.queue,
            name=new.name,
            command=new.command,
            parameters=new.parameters,
            state="scheduled" if eta is not None and eta > self.now() else "pending",
            held=new.held,
            priority=new.priority,
            owner=new.owner,
            key=new.key,
            unique=new.unique,
            unique_while=new.unique_while,
            unique_for=new.unique_for,
            policy=new.policy,
            created=self.now(),
            updated=self.now(),
            eta=eta,
            start_before=None if new.expire is None else self.now() + new.expire,
        )
        self.tasks[new.id] = task
        self.tries[new.id] = []
        self.settings.setdefault(new.queue, Settings())
        return task, True

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        lease = self._alive(worker)
        given: list[Task] = []
        for queue in queues:
            while len(given) < limit and (task := self._next(queue, handles)) is not None:
                taken = replace(
                    task,
                    state="reserved",
                    worker=worker,
                    node=lease.worker.node,
                    attempt=task.attempt + 1,
                    updated=self.now(),
                    returned_from=None,
                    usage=None,
                )
                self.tasks[task.id] = taken
                self.tries[task.id].append(Try(taken.attempt, worker))
                self.runs.append(Run(task.id, queue, self.now()))
                self.settings[queue].take_token(self.now())
                given.append(taken)
        return given

    def _next(self, queue: str, handles: Handles) -> Task | None:
        settings = self.settings.get(queue, Settings())
        running = [task for task in self.running() if task.queue == queue]
        if settings.limit is not None and len(running) >= settings.limit:
            return None
        if settings.tokens(self.now()) < 1 - 1e-6:
            return None
        fit = [
            task
            for task in self.takeable(queue)
            if _handled(task, handles) and settings.has_place(task.key, running)
        ]
        if (fair := settings.fair) and fit:
            used = usage_of_shares(fair, self.runs, self.tasks, fit, self.now())
            fit.sort(key=lambda task: (-task.priority, used[share_of(fair, task)]))
        return fit[0] if fit else None

    def running(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.state in RUNNING]

    def holders(self, queue: str, unique: str | None, but: str | None = None) -> list[Task]:
        """Whoever holds this unique word: one of these is who meets a submit."""
        return [
            task
            for task in self.tasks.values()
            if (task.queue, task.unique) == (queue, unique) and unique is not None
            and task.id != but and holds(task, self.now())
        ]  # fmt: skip

    def takeable(self, queue: str) -> list[Task]:
        """What could be taken if handles and limits allowed it, best first."""
        if self.settings.get(queue, Settings()).paused:
            return []
        waiting = [
            task
            for task in self.tasks.values()
            if task.queue == queue
            and task.state == "pending"
            and not task.held
            and (task.start_before is None or task.start_before > self.now())
        ]
        return sorted(waiting, key=lambda task: -task.priority)

    def commit(self, change: Change) -> Task | None:
        task = self.tasks.get(change.id)
        if task is None:
            return None
        named = (change.state, change.worker, change.attempt, change.last_order)
        late = (
            change.late
            and task.state == "pending"
            and task.returned_from == _name(change.worker, change.attempt)
        )
        if not late and named != (task.state, task.worker, task.attempt, task.last_order):
            return None
        if change.losses_before not in (None, task.losses):
            return None
        if change.unique_is_free and self.holders(task.queue, task.unique, but=task.id):
            return None
        changed = self._changed(task, change)
        self.tasks[change.id] = changed
        effect = change.effect
        if effect.attempt is not None and not late:
            current = self.tries[change.id][-1]
            current.started = current.started or effect.to == "started"
            current.ending = effect.attempt.ending
        if effect.ends_run and not late:
            self._end_run(task.id, change.ago)
        return changed

    def _end_run(self, id: str, ago: float) -> None:
        for run in self.runs:
            if run.id == id and run.end is None:
                fair = self.settings[run.queue].fair
                run.end, run.share = self.now(), share_of(fair, self.tasks[id]) if fair else None
                run.ran = max(0.0, self.now() - ago - run.begin)

    def _changed(self, task: Task, change: Change) -> Task:
        effect = change.effect
        fields = {"state": effect.to, **effect.sets}
        fields |= {field: self.now() + seconds for field, seconds in effect.times.items()}
        if effect.moment is not None:
            fields[effect.moment] = self._moment_of(task, change)
        if change.result is not UNSET:
            fields["result"] = change.result
        if change.parameters is not UNSET:
            fields["parameters"] = change.parameters
        return replace(task, **fields)

    def _moment_of(self, task: Task, change: Change) -> float:
        """When it was, which may be before it was told."""
        if not change.ago:
            return max(self.now(), task.started_at or 0.0)
        reserved_at = [run.begin for run in self.runs if run.id == task.id][-1]
        return max(self.now() - change.ago, task.started_at or reserved_at)

    def came_late(self, id: str) -> None:
        """A late result was welcome: what its attempt says of that is the store's choice."""
        self.tries[id][-1].late = True

    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
    ) -> tuple[list[bool], list[Task]]:
        self._alive(worker)
        applied = [self.commit(change) is not None for change in changes]
        return applied, self.reserve(worker, queues, limit, handles)

    def due(self) -> list[Task]:
        return [task for task in self.scheduled() if (task.eta or 0) <= self.now()]

    def scheduled(self) -> list[Task]:
        waiting = [task for task in self.tasks.values() if task.state == "scheduled"]
        return sorted(waiting, key=lambda task: task.eta or 0)

    def late(self) -> list[Task]:
        """What has not been started in time."""
        return [task for task in self.expiring() if (task.start_before or 0) <= self.now()]

    def expiring(self) -> list[Task]:
        waiting = [task for task in self.tasks.values() if task.state in QUEUED]
        return [task for task in waiting if task.start_before is not None]

    def next_thing(self) -> float | None:
        """When time brings something."""
        moments = [task.eta for task in self.scheduled()]
        moments += [task.start_before for task in self.expiring()]
        return min((moment for moment in moments if moment is not None), default=None)

    def promoted(self, ids: Sequence[str]) -> None:
        """These have been promoted: which of the due ones go first is the store's choice."""
        for id in ids:
            task = self.tasks[id]
            self.tasks[id] = self._changed(task, decide(task, Due()))

    # Workers

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        lease = self.leases.get(worker.id)
        if lease is None and number > 1:
            raise LeaseLost
        if lease is not None and (
            lease.dead or number < lease.number or (number == lease.number and nonce != lease.nonce)
        ):
            raise LeaseLost
        end = max(self.now() + worker.lease, lease.end if lease else 0)
        self.leases[worker.id] = Lease(worker, number, nonce, self.now(), end)
        for report in reports:
            self._report(worker.id, report)
        return Beat(now=self.now(), orders=self._orders(worker.id), suspects=self._suspects())

    def _report(self, worker: str, report: Report) -> None:
        task = self.tasks.get(report.id)
        if task is None or task not in self.holdings(worker) or task.attempt != report.attempt:
            return
        if report.progress is not None:
            task = replace(task, progress=report.progress)
        if report.checkpoint is not None:
            task = replace(task, checkpoint_at=self.now())
        if report.progress is not None or report.checkpoint is not None:
            task = replace(task, losses=0)
        if report.paused is not None and task.state == "started":
            task = replace(task, paused=report.paused)
        if report.usage is not None:
            task = replace(task, usage=report.usage)
        orders = acknowledge(task.orders, report.acknowledged)
        self.tasks[task.id] = replace(task, orders=orders)

    def _orders(self, worker: str) -> tuple[Orders, ...]:
        open_orders = (
            (task, tuple(order for order in task.orders if not order.acknowledged))
            for task in self.holdings(worker)
        )
        return tuple(
            Orders(task.id, task.attempt, orders) for task, orders in open_orders if orders
        )

    def _suspects(self) -> tuple[Suspect, ...]:
        return tuple(
            Suspect(lease.worker.id, lease.number, lease.worker.lease)
            for lease in self.leases.values()
            if not lease.dead
            and not lease.worker.keeps
            and self.now() - lease.beat_at > lease.worker.lease / 4
        )

    def declare_lost(self, judge: str | None, silent: dict[str, int]) -> list[Task]:
        if judge is not None:
            self._alive(judge)
        for worker, number in silent.items():
            lease = self.leases.get(worker)
            if lease is not None and lease.number == number:
                lease.dead = True
        return [
            task for lease in self.leases.values() if lease.dead
            for task in self.holdings(lease.worker.id)
        ]  # fmt: skip

    def forget_the_dead(self) -> None:
        held_by = {task.worker for task in self.tasks.values() if task.state in RUNNING}
        self.leases = {
            id: lease for id, lease in self.leases.items() if not lease.dead or id in held_by
        }

    def drop_worker(self, worker: str, number: int | None) -> list[Task]:
        lease = self.leases.get(worker)
        if lease is None:
            raise UnknownWorker
        if number is not None and number != lease.number:
            raise LeaseLost
        if number is None and lease.end > self.now():
            raise Refused
        lease.dead = True
        return self.holdings(worker)

    def holdings(self, worker: str) -> list[Task]:
        return [
            task for task in self.tasks.values() if task.worker == worker and task.state in RUNNING
        ]

    def workers(self) -> dict[str, tuple[int, int, WorkerState]]:
        """Number, tasks and state of all that are not declared lost."""
        known: dict[str, tuple[int, int, WorkerState]] = {}
        for id, lease in self.leases.items():
            running = len(self.holdings(id))
            state: WorkerState = "PROCESSING" if running else "IDLE"
            if lease.end < self.now():
                state = "STALE"
            elif lease.worker.draining:
                state = "DRAINING"
            if not lease.dead:
                known[id] = (lease.number, running, state)
        return known

    def _alive(self, worker: str) -> Lease:
        lease = self.leases.get(worker)
        if lease is None or lease.dead:
            raise LeaseLost
        return lease

    # Queues and history

    def counts(self) -> Counter[tuple[str, State]]:
        return Counter((task.queue, task.state) for task in self.tasks.values())

    def next_start(self) -> float | None:
        """When a rate next lets something begin that waits for nothing else."""
        moments = [
            settings.next_token(self.now())
            for queue, settings in self.settings.items()
            if self.counts()[queue, "pending"]
            and not settings.paused
            and (
                settings.limit is None
                or sum(self.counts()[queue, state] for state in RUNNING) < settings.limit
            )
        ]
        return min((moment for moment in moments if moment is not None), default=None)

    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> None:
        self.settings.setdefault(name, Settings()).change(settings)

    def drop_queue(self, name: str) -> None:
        """All of it at once: in which order its tasks go is the store's choice."""
        if name not in self.settings:
            raise UnknownQueue
        mine = [task for task in self.tasks.values() if task.queue == name]
        if any(task.state in RUNNING for task in mine):
            raise Refused
        for task in mine:
            del self.tasks[task.id]
        del self.settings[name]
        self.runs = [run for run in self.runs if run.queue != name]

    def purgeable(self, states: Sequence[State], before: float) -> list[str]:
        return [
            task.id
            for task in self.tasks.values()
            if task.state in states and task.state in FINISHED and task.updated < before
        ]

    def forget(self, ids: Sequence[str]) -> None:
        """These have been purged: which of many go first is the store's choice."""
        for id in ids:
            self.purged[id] = (self.tasks.pop(id), self.now())


def _name(worker: str | None, attempt: int) -> str:
    return f"{worker} {attempt}"


def _handled(task: Task, handles: Handles) -> bool:
    if task.name is not None:
        return any(fnmatchcase(task.name, pattern) for pattern in handles.names)
    if task.command:
        return any(fnmatchcase(task.command[0], pattern) for pattern in handles.programs)
    return handles.plain
