"""Taking tasks: a worker's identity and lease in the caller's own process.

A task taken here runs at least once: its lease is kept in the background, a late finish is
refused, a cancel is a wish that the work must notice.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self, TypeAlias, overload

from msgspec.structs import replace

from stayer.client.handle import TaskHandle, as_stored
from stayer.client.untaken_tasks import Taken
from stayer.client.values import Duration, seconds
from stayer.config.parsing import SMALLEST_LEASE, check_heartbeat
from stayer.core import ids
from stayer.core.errors import BadInput, LeaseLost, Refused, StoreError, UnknownWorker
from stayer.core.happenings import Interrupt
from stayer.core.model import Report, Task, Value
from stayer.core.submit.names import check_word
from stayer.core.version import __version__
from stayer.core.worker_model import Handles, Orders, Worker, WorkerOrder
from stayer.service.control import tasks as control
from stayer.service.degraded.partial import held_by
from stayer.service.lease.heartbeat import Heartbeat
from stayer.service.upkeep import due_work
from stayer.store import Store, Waiter

OnTask: TypeAlias = Callable[[TaskHandle[Value]], object]

PROMOTE_BATCH = 100
"""How many due tasks are made pending at a time."""
RECONCILE_EVERY = 1000
"""After so many tasks it is looked up which of them are still held."""
LONGEST_SLEEP_S = 60.0
"""Look again after so many seconds in any case: clocks are set, machines are suspended."""


class Listener:
    """Claims tasks and keeps the lease on them until they are settled or it is closed.

    Several threads may listen at once.
    """

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        *,
        lease: float,
        handles: Handles,
        node: str,
        heartbeat: float | None = None,
    ) -> None:
        if not queues:
            raise BadInput("a listener needs at least one queue")
        for queue in queues:
            check_word("queue", queue)
        if lease < SMALLEST_LEASE:
            raise BadInput(
                f"a lease of {lease:g} s is too short: give {SMALLEST_LEASE:g} s or more"
            )
        check_heartbeat(heartbeat, lease)
        self._interval_s = heartbeat
        self.queues = tuple(dict.fromkeys(queues))
        self.worker = Worker(
            id=_new_identity(node),
            node=node,
            pid=os.getpid(),
            queues=self.queues,
            version=__version__,
            lease=lease,
            handles=handles,
        )
        self._store = store
        self._handles = handles
        self._heartbeat: Heartbeat | None = None
        self._closed = False
        self._lost = False
        self._draining = False
        self._life = threading.Lock()
        self._claiming = threading.Lock()
        self._ringing = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._given: set[tuple[str, int]] = set()
        self._taken = Taken(store, lease)
        self._cancelled: set[tuple[str, int]] = set()
        self._unsure = False
        self._look_again_at = math.inf

    def __repr__(self) -> str:
        return f"<Listener {self.worker.id} of {', '.join(self.queues)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[TaskHandle[Value]]:
        """Give tasks as they come, until the listener is closed or told to drain."""
        return self._tasks(threading.Event())

    @overload
    def listen(
        self, timeout: Duration | None = None, *, stop: threading.Event | None = None
    ) -> TaskHandle[Value] | None: ...
    @overload
    def listen(self, timeout: OnTask, *, stop: threading.Event | None = None) -> None: ...
    def listen(
        self, timeout: Duration | OnTask | None = None, *, stop: threading.Event | None = None
    ) -> TaskHandle[Value] | None:
        """Wait for a task and claim it; None when the time is over. With a function instead of a
        time: call it with each task that comes, until the listener is closed or told to drain.

        Raises Refused once it is closed, or told to drain.

        Another thread ends it early by setting `stop` and calling `ring`.
        """
        stop = stop or threading.Event()
        if callable(timeout):
            for task in self._tasks(stop):
                timeout(task)
            return None
        return self._listen(timeout, stop)

    def _tasks(self, stop: threading.Event) -> Iterator[TaskHandle[Value]]:
        while not self._closed and not stop.is_set():
            try:
                task = self._listen(None, stop)
            except Refused:
                if self._closed or self._draining:  # by others, in the meantime
                    return
                raise
            if task is not None:
                yield task

    def _listen(self, timeout: Duration | None, stop: threading.Event) -> TaskHandle[Value] | None:
        limit = math.inf if timeout is None else seconds(timeout)
        deadline = time.monotonic() + limit
        self._start()
        self._taken.warn()
        self._promote()
        task = self._claim()  # while there is work, no waiter is needed
        while task is None and limit > 0 and not stop.is_set():
            with self._waiter() as waiter:
                task = self._await_task(waiter, deadline, stop)
            if task is not None or time.monotonic() >= deadline:
                break
        return None if task is None else TaskHandle(self._store, task, as_stored)

    def ring(self) -> None:
        """Wake the threads that listen, so that they look whether they should stop."""
        with self._ringing:
            for waiter in self._waiters:
                waiter.ring()

    def give_back(self, task: TaskHandle[object]) -> None:
        """Put a claimed task back to its place in the queue, free of charge."""
        try:
            control.settle(self._store, task.record, Interrupt("given back"))
        except StoreError:
            self._given.discard((task.id, task.attempt))
            self._unsure = True  # the next who listens gets it
            raise
        self.forget(task.record)

    def close(self) -> None:
        """Give back what it holds and take its leave."""
        self._closed = True
        self.ring()
        with self._life:
            heartbeat, self._heartbeat = self._heartbeat, None
        # A fork leaves it to its parent.
        if heartbeat is not None and os.getpid() == self.worker.pid:
            with suppress(LeaseLost, UnknownWorker):  # then it has been declared lost
                heartbeat.stop()

    @property
    def closed(self) -> bool:
        """Whether it takes no more."""
        return self._closed

    @property
    def lost(self) -> bool:
        """Whether it was declared lost, and what it held given to others."""
        return self._lost

    # For the processors of its tasks

    @property
    def heartbeat(self) -> Heartbeat | None:
        """What beats for it in this process."""
        return self._heartbeat if os.getpid() == self.worker.pid else None

    def is_cancelled(self, task: Task) -> bool:
        """Tell whether an order to cancel has come for this attempt."""
        return (task.id, task.attempt) in self._cancelled

    def note_begin(self, task: Task) -> None:
        """Somebody works on it."""
        self._taken.forget(task)

    def forget(self, task: Task) -> None:
        """Forget the attempt, which is over."""
        self._given.discard((task.id, task.attempt))
        self._cancelled.discard((task.id, task.attempt))
        self._taken.forget(task)

    # Inside

    def _start(self) -> None:
        with self._life:
            self._check()
            if self._heartbeat is None:
                # Kept only if its first beat got through: else the next call tries another.
                heartbeat = Heartbeat(
                    self._store, self.worker, on_orders=self._obey, on_lost=self._lose,
                    on_drain=self._drain, on_order=self._change, interval=self._interval_s,
                )  # fmt: skip
                heartbeat.start()
                self._heartbeat = heartbeat
                # What was ordered before there was a heartbeat to tell.
                if self._draining or self.queues != self.worker.queues:
                    self._describe(heartbeat)

    def _check(self, *, taking: bool = True) -> None:
        if self._closed:
            raise Refused("the listener is closed: get another one")
        if self._draining and taking:
            raise Refused("the listener was told to drain: finish what it gave you, then close it")
        if os.getpid() != self.worker.pid:
            raise Refused("the listener belongs to the process that forked this one: get another")
        if self._lost:
            raise LeaseLost(
                f"listener {self.worker.id} was silent for longer than its lease "
                f"({self.worker.lease:g} s) and declared lost; what it held went to others: "
                "stop working on its tasks and get another listener"
            )

    @contextmanager
    def _waiter(self) -> Iterator[Waiter]:
        waiter = self._store.waiter(None, self.queues)
        with self._ringing:
            self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            with self._ringing:  # nobody rings what is closed
                self._waiters.discard(waiter)
                waiter.close()

    def _await_task(self, waiter: Waiter, deadline: float, stop: threading.Event) -> Task | None:
        queues = self.queues
        while queues == self.queues:  # else they were changed: it has to listen to others
            if task := self._claim():
                return task
            # After it found nothing: a rate may tell when the next task may begin.
            due = min(self._promote(), self._taken.until_due())
            self._taken.warn()
            left = deadline - time.monotonic()
            if left <= 0 or stop.is_set():
                return None
            waiter.wait(min(left, due, LONGEST_SLEEP_S))
            if stop.is_set():
                return None
        return None

    def _promote(self) -> float:
        """See to some of what is due; in how many seconds the next thing will be, 0 for more."""
        due = due_work.elapse(self._store, PROMOTE_BATCH)
        return math.inf if due is None else max(0.0, due - self._store.now())

    def _claim(self) -> Task | None:
        with self._claiming:
            self._check()
            try:
                task = self._find_unknown() or self._reserve()
            except LeaseLost:
                self._lose()
                self._check()
                raise
            except StoreError:
                # The store may have given us a task in an answer that never came.
                self._unsure = True
                raise
            if task is not None:
                self._given.add((task.id, task.attempt))
                self._taken.add(task)
                if len(self._given) % RECONCILE_EVERY == 0:
                    self._unsure = True
                self._check(taking=False)  # closing gives it back, losing the lease gave it away
            return task

    def _reserve(self) -> Task | None:
        tasks = self._store.reserve(self.worker.id, self.queues, 1, self._handles)
        return tasks[0] if tasks else None

    def _find_unknown(self) -> Task | None:
        """Find what the store says we hold although nobody was given it."""
        if not self._unsure and time.monotonic() < self._look_again_at:
            return None
        found = held_by(self._store, self.worker.id, self.queues)
        held = {(task.id, task.attempt): task for task in found.tasks}
        if found.queues is None:
            self._given.intersection_update(held)
            self._cancelled.intersection_update(held)
        for key, task in held.items():
            if key not in self._given:
                return task
        self._unsure = False
        # A queue that was left out says when it can be asked again, unless that was just now.
        later = math.inf if found.queues is None else self.worker.lease
        self._look_again_at = time.monotonic() + later
        return None

    def _obey(self, orders: Orders) -> None:
        for order in orders.orders:
            if order.verb == "cancel":
                self._cancelled.add((orders.id, orders.attempt))
                if self._heartbeat is not None:
                    report = Report(id=orders.id, attempt=orders.attempt, acknowledged=order.number)
                    self._heartbeat.report(report)

    def _drain(self) -> None:
        self._draining = True
        self._describe(self._heartbeat)
        self.ring()

    def _change(self, order: WorkerOrder) -> None:
        """Take from other queues, if an operator wants it so. To stop is to drain here: what works
        on its tasks is not ours to end.
        """
        if order.grace is not None:
            return
        self.queues = self.worker.queues if order.queues is None else order.queues
        self._describe(self._heartbeat)
        self.ring()

    def _describe(self, heartbeat: Heartbeat | None) -> None:
        """Let people see what it listens to now, and whether it drains."""
        if heartbeat is not None:
            heartbeat.describe(replace(self.worker, queues=self.queues, draining=self._draining))

    def _lose(self) -> None:
        self._lost = True
        self.ring()


_identities = threading.Lock()
_last_moment = 0.0


def _new_identity(node: str) -> str:
    """Make a worker's id that no other listener of this process has."""
    global _last_moment  # noqa: PLW0603
    with _identities:
        _last_moment = max(time.time(), _last_moment + 0.001)
        return ids.worker_id(node, os.getpid(), _last_moment)
