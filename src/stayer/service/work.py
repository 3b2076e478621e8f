"""Workers who come through a server: what it does for them at the store.

Whose a worker's id is, and which tasks a request for some was given, is recorded in the store: all
servers know it, and a server that is started again. What else a server remembers here is only by
how much sooner forgotten tasks are given back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stayer.core.decoding import decode_json
from stayer.core.errors import LeaseLost, NotHeld, Refused, UnknownTask, UnknownWorker
from stayer.core.happenings import Done, Happening, Interrupt, Start
from stayer.core.lifecycle import decide, with_checkpoint
from stayer.core.model import RUNNING, Attempt, Ending, Report, State, Task
from stayer.core.worker_model import Beat, Handles, Worker
from stayer.service.control import tasks as control
from stayer.service.lease.heartbeat import moment
from stayer.store import Store

logger = logging.getLogger(__name__)

PROTOCOL = 1
TAKE_KEPT_S = 600.0
"""How long a request for tasks may be repeated."""
_OWNER_KEPT_S, _OWNER_KEPT_LEASES = 30 * 86400.0, 400
_OWNER_RENEWED = 1000
"""In how many beats it is recorded anew whose a worker is: far sooner than that is forgotten."""
_CACHED_OWNERS = 10_000
WORKERS_A_TOKEN = 1000
"""How many workers one token may have at a time: lists of workers have them all."""

_FORGOTTEN_SHARE = 1 / 16
"""For how much of its lease a worker does not name a task that it has forgotten: for less than from
one beat to the next, if nothing hurries them.
"""

Key = tuple[str, int]
"""An attempt: the id of its task, and its number."""
_Held = tuple[str, int, State]
"""The same, with the state of the task."""


class NotYours(Exception):
    """The worker's id belongs to another token."""


class Answer(NamedTuple):
    """The answer to a beat, and which of the attempts that it named are not held any more."""

    beat: Beat
    lost: list[Key]


class ReportedChange(NamedTuple):
    """What a worker reports of a task, and how it knows it: the server decides what follows."""

    id: str
    attempt: int
    happening: Happening
    state: str | None = None
    last_order: int | None = None
    ago: float = 0.0
    paused: bool | None = None
    checkpoint: bytes | None = None


class RemoteWorkers:
    """The workers of one server; to be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._owners: dict[str, str] = {}
        self._unnamed: dict[str, tuple[int, dict[_Held, float]]] = {}
        """The last beat of a worker that left something out, and what, since when."""

    # Whose it is

    def check(self, worker: str, owner: str) -> None:
        """Raise unless the worker was introduced by this token: NotYours if it was another one,
        UnknownWorker if it was nobody.
        """
        found = self._owner_of(worker)
        if found is None:
            raise UnknownWorker(f"worker {worker!r} is not known: let it beat first, with number 1")
        if found != owner:
            raise NotYours

    def of(self, owner: str) -> list[Worker]:
        """List the workers that this token has introduced."""
        return [each for each in self._store.workers() if self._owner_of(each.id) == owner]

    def get(self, worker: str) -> Worker:
        """Read a worker; raises UnknownWorker if it is not there, or was declared lost."""
        for each in self._store.workers():
            if each.id == worker:
                return each
        raise UnknownWorker(f"worker {worker!r} is not known, or was declared lost")

    def _owner_of(self, worker: str) -> str | None:
        found = self._owners.get(worker)  # it never becomes another's while it is recorded
        if found is None:
            found = self._store.read_record(_owner_key(worker))
            if found is not None:
                with self._lock:
                    if len(self._owners) >= _CACHED_OWNERS:
                        self._owners.clear()
                    self._owners[worker] = found
        return found

    def _introduce(self, worker: Worker, number: int, owner: str) -> None:
        found = self._owner_of(worker.id)
        if found is not None and found != owner:
            raise NotYours
        if found is None and number != 1:
            raise LeaseLost(f"worker {worker.id} is not known here: begin with the number 1")
        if found is None and self._is_elsewhere(worker.id):
            raise NotYours
        if number == 1:
            self._check_room(worker.id, owner)
        if found is None or number % _OWNER_RENEWED == 0:
            kept = max(_OWNER_KEPT_S, _OWNER_KEPT_LEASES * worker.lease)
            if self._store.record_once(_owner_key(worker.id), owner, kept) != owner:
                raise NotYours

    def _check_room(self, worker: str, owner: str) -> None:
        """Raise Refused if the token has as many other workers as it may have."""
        there = self._store.workers()
        if len(there) < WORKERS_A_TOKEN or any(each.id == worker for each in there):
            return
        if sum(self._owner_of(each.id) == owner for each in there) >= WORKERS_A_TOKEN:
            raise Refused(
                f"the token {owner} has {WORKERS_A_TOKEN:,} workers already: let some leave, or "
                "make another token"
            )

    def _is_elsewhere(self, worker: str) -> bool:
        """Tell whether a worker of this id is, or was, at the database itself."""
        there = any(each.id == worker for each in self._store.workers())
        return there or bool(self._store.holdings(worker))

    # The lease

    def beat(
        self,
        worker: Worker,
        owner: str,
        number: int,
        nonce: str,
        reports: Sequence[Report],
        running: Collection[Key] | None,
    ) -> Answer:
        """Renew a lease. With `running`, all that it says it runs: what it holds and has not named
        in two beats goes back to the queue, and it hears what it does not hold.
        """
        self._introduce(worker, number, owner)
        answer = self._store.beat(worker, number, nonce, reports)
        if running is None:
            return Answer(answer, [])
        held = {(task.id, task.attempt): task for task in self._store.holdings(worker.id)}
        self._give_back_forgotten(worker, number, held, running)
        return Answer(answer, [key for key in running if key not in held])

    def _give_back_forgotten(
        self, worker: Worker, number: int, held: dict[Key, Task], running: Collection[Key]
    ) -> None:
        now = moment()
        # With its state: one that has just been started was on its way while the beat was made.
        unnamed = [(*key, held[key].state) for key in held.keys() - set(running)]
        with self._lock:
            last, before = self._unnamed.get(worker.id, (0, {}))
            if number == last:
                return  # the same beat once more
            since = {key: before.get(key, now) for key in unnamed}
            if since:
                self._unnamed[worker.id] = number, since
            else:
                self._unnamed.pop(worker.id, None)
        for id, attempt, state in unnamed:
            # Beats may come fast, while the answer to the take is on its way.
            if now - since[id, attempt, state] < worker.lease * _FORGOTTEN_SHARE:
                continue
            with suppress(NotHeld):
                forgotten = held[id, attempt]
                control.settle(self._store, forgotten, Interrupt("its worker does not name it"))
                logger.warning("task %s was given back: %s does not name it", id, worker.id)

    def leave(self, worker: str, number: int) -> None:
        """Let a worker go, and give back what it holds; harmless if it has gone. One that has
        beaten since stays: this request was on its way for too long. That its last beat has not
        come here keeps nobody.
        """
        try:
            held = self._drop(worker, number)
        except UnknownWorker:
            held = self._store.holdings(worker)  # what an earlier try did not come to
        except LeaseLost:
            return
        for task in held:
            with suppress(NotHeld):
                control.settle(self._store, task, Interrupt("its worker left"))
        with self._lock:
            self._unnamed.pop(worker, None)

    def _drop(self, worker: str, number: int) -> list[Task]:
        known = 0
        while known < (last := self.get(worker).number) <= number:
            known = last
            with suppress(LeaseLost):  # the beat after it has just come
                return self._store.drop_worker(worker, known)
        raise LeaseLost(f"worker {worker} has beaten since")

    # Tasks

    def take(
        self, worker: str, key: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        """Reserve tasks for a request with this key, which has not been given any so far."""
        tasks = self._store.reserve(worker, queues, limit, handles)
        if not tasks:
            return []
        mine = msgspec.json.encode([(task.id, task.attempt) for task in tasks]).decode()
        there = self._store.record_once(_take_key(worker, key), mine, TAKE_KEPT_S)
        if there == mine:
            return tasks
        # The same request was answered elsewhere meanwhile: by that, and not by this one.
        for task in tasks:
            with suppress(NotHeld):
                control.settle(self._store, task, Interrupt("its request was answered twice"))
        return self._held_of(worker, there)

    def find_given(self, worker: str, key: str) -> list[Task] | None:
        """Return what a request with this key was given, as far as it is still held; None if it was
        given nothing so far.
        """
        there = self._store.read_record(_take_key(worker, key))
        return None if there is None else self._held_of(worker, there)

    def _held_of(self, worker: str, recorded: str) -> list[Task]:
        attempts = dict(decode_json(recorded, list[Key]))
        found = self._store.get(list(attempts))
        return [
            task for task in found if task is not None and is_held(task, worker, attempts[task.id])
        ]

    def visible(self, worker: str, queues: Collection[str], ids: Sequence[str]) -> list[Task]:
        """Read those of these tasks that a worker may see: those of its token's queues, what it
        holds, and what runs before something that it holds.
        """
        found = [task for task in self._store.get(ids) if task is not None]
        others = {task.id for task in found if task.queue not in queues and task.worker != worker}
        if others:
            tied = [task.id for task in self._store.holdings(worker) if task.upstreams]
            before = {id for ties in self._store.upstreams(tied) for id in ties.after}
            others -= before
        return [task for task in found if task.id not in others]

    def start(self, worker: str, id: str, attempt: int, pid: int | None) -> Task:
        """Let an attempt begin; again if it has. Raises NotHeld."""
        task = self._get(id)
        while is_held(task, worker, attempt):
            if task.state == "started":
                return task
            done = self._store.commit([decide(task, Start(pid))])[0]
            if done is not None:
                return done
            task = self._get(id)
        raise _not_held(task, worker, attempt)

    def settle(
        self,
        worker: str,
        id: str,
        attempt: int,
        happening: Happening,
        known: Sequence[Ending],
        queues: Collection[str],
    ) -> Task:
        """Bring the end of an attempt, of one of these queues, into the store; if it is there
        already, as one of `known`, that is as good. Raises NotHeld.
        """
        task = self._get(id)
        if task.queue not in queues:
            raise _not_held(task, worker, attempt)
        if is_held(task, worker, attempt):
            with suppress(NotHeld):
                return control.settle(self._store, task, happening)
            task = self._get(id)
        if isinstance(happening, Done):  # welcome late, if nobody has touched the task since
            as_it_was = replace(task, state="started", worker=worker, attempt=attempt)
            late = self._store.commit([decide(as_it_was, happening)])[0]
            if late is not None:
                return late
        if any(_is_end(each, worker, attempt, known) for each in self._store.attempts(id)):
            return task
        raise _not_held(task, worker, attempt)

    def report(self, worker: str, report: Report) -> None:
        """Take news of a running attempt. Raises NotHeld."""
        if not self._store.report(worker, [report])[0]:
            raise _not_held(self._get(report.id), worker, report.attempt)

    def commit(
        self, worker: str, told: Sequence[ReportedChange], queues: Collection[str]
    ) -> list[Task | None]:
        """Decide what follows from what a worker tells, and commit it: the answer is as that of
        `Store.commit`. What the worker names must still hold, so it decides nothing unseen.
        """
        tasks = {task.id: task for task in self._store.get([each.id for each in told]) if task}
        changes, places = [], []
        for place, each in enumerate(told):
            task = tasks.get(each.id)
            if task is None or task.queue not in queues:
                continue
            seen = replace(
                task,
                state=each.state or task.state,
                worker=worker,
                attempt=each.attempt,
                last_order=task.last_order if each.last_order is None else each.last_order,
                paused=task.paused if each.paused is None else each.paused,
            )
            change = decide(seen, each.happening, each.ago)
            if each.checkpoint is not None:
                change = with_checkpoint(change, each.checkpoint)
            changes.append(change)
            places.append(place)
        answers: list[Task | None] = [None] * len(told)
        if changes:
            for place, answer in zip(places, self._store.commit(changes), strict=True):
                answers[place] = answer
        return answers

    def _get(self, id: str) -> Task:
        [task] = self._store.get([id])
        if task is None:
            raise UnknownTask(f"no task {id!r}: it was deleted, or never was")
        return task


def is_held(task: Task, worker: str, attempt: int) -> bool:
    """Tell whether the task is held by just them."""
    return task.state in RUNNING and (task.worker, task.attempt) == (worker, attempt)


def _is_end(each: Attempt, worker: str, attempt: int, known: Sequence[Ending]) -> bool:
    return (each.worker, each.attempt) == (worker, attempt) and each.ending in known


def _not_held(task: Task, worker: str, attempt: int) -> NotHeld:
    return NotHeld(
        f"task {task.id} is no longer held by attempt {attempt} of worker {worker}: it is "
        f"{task.state}, attempt {task.attempt}. Stop working on it; whatever it did since is "
        "refused"
    )


def _owner_key(worker: str) -> str:
    return f"owner of worker {worker}"


def _take_key(worker: str, key: str) -> str:
    return f"taken by {worker} {key}"
