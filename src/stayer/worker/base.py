"""What every worker has: a lease that a heartbeat renews, signals and orders that it listens to,
and a loop that nothing ends but a word from outside.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from signal import SIGUSR1
from typing import NoReturn

from stayer.core.errors import LeaseLost, StoreError, StoreUnreachable, StoreUnusable
from stayer.core.model import Report, Task
from stayer.core.units import format_duration
from stayer.core.worker_model import Beat, Orders, Worker, WorkerOrder
from stayer.service.degraded import log_once
from stayer.service.lease.heartbeat import Heartbeat, moment
from stayer.store import Store, known_workers
from stayer.worker.backoff import Backoff
from stayer.worker.signals import Signals
from stayer.worker.state_directory import StateDirectory
from stayer.worker.suspend_detector import SuspendDetector
from stayer.worker.wakeup import Bell

logger = logging.getLogger("stayer.worker")

TICK_S = 1.0
"""How long a worker sleeps at most between two rounds."""
_LEAVE_TIMEOUT_S = 10.0
"""How long a worker that is to stop tries to tell the store of what it held."""


class BeatingWorker(ABC):
    """The frame of a worker; what it runs, and how, is for others to say."""

    def __init__(self, store: Store, state: StateDirectory, heartbeat: float | None = None) -> None:
        """`heartbeat`: how often to beat, in seconds; None: eight times in a lease."""
        self._store = store
        self._interval_s = heartbeat
        self._state = state
        self._heartbeat: Heartbeat | None = None
        self._orders: deque[Orders] = deque()
        self._patience = Backoff()
        self._signals = Signals(self._patience.take_interrupt, self._patience.shorten_call)
        self._bell = Bell()
        self._draining = self._stopping = self._leaving = self._lease_lost = False
        self._worker_orders: deque[WorkerOrder] = deque()
        self._ordered_to_stop = False
        self._has_begun = state.resumed
        self._is_in_its_store = False
        self._leave_at: float | None = None
        self._suspend_detector = SuspendDetector()
        self._was_away = False

    @property
    def is_drained(self) -> bool:
        """It has ended because somebody told it to: it is not to be started again by itself."""
        return self._ordered_to_stop or (
            self._draining and not self._leaving and not self._stopping
        )

    def run(self) -> None:
        """Work until it is told to go and holds nothing more, or is told to leave all as it is."""
        self._begin()
        while not self._is_finished():
            try:
                self._once()
                if not self._is_finished():
                    self._wait()
            except Exception:
                # A full disk, a defect: the tasks run on, and so must whoever looks after them.
                logger.exception("something went wrong, going on")
                self._bell.sleep(TICK_S)
        self._end()

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _once(self) -> None: ...

    @abstractmethod
    def _wait(self) -> None: ...

    @abstractmethod
    def _is_finished(self) -> bool: ...

    @abstractmethod
    def _end(self) -> None: ...

    @abstractmethod
    def _handle_signals(self) -> None: ...

    @abstractmethod
    def _describe_worker(self) -> Worker: ...

    @abstractmethod
    def _stop_all(self, grace: float) -> None: ...

    @abstractmethod
    def _change(self, order: WorkerOrder) -> None: ...

    @abstractmethod
    def _gather(self) -> Sequence[Report]: ...

    @abstractmethod
    def _on_beat(self, good_until: float, answer: Beat) -> None: ...

    # The lease

    def _start_heartbeat(self) -> None:
        """Register, however long the store takes to answer."""
        while self._heartbeat is None and not (self._leaving or self._stopping):
            try:
                self._heartbeat = self._register()
                self._has_begun = True
            except LeaseLost:
                self._lease_lost = False
                self._state.void_lease()
                self._state.new_identity()
            except StoreError as error:
                # Somebody must mend it, and is there to hear of it: a worker that looks after
                # nothing yet does not begin. What was adopted is not left alone for it.
                if isinstance(error, StoreUnusable) and not self._has_begun:
                    raise
                log_once.warn_once(logger, "asking the store again", error)
                self._bell.sleep(self._patience.next_pause())
                self._handle_signals()

    def _register(self) -> Heartbeat:
        """Register and return a heartbeat that runs; raises LeaseLost if the identity is no longer
        worth anything.
        """
        if self._is_in_its_store:
            self._state.join(self._store.identity())  # it may have lost its data, and be another
        else:
            self._state.belong_to(self._store.identity())
            self._is_in_its_store = True
        about = self._describe_worker()
        last_number = self._last_number(about.id)
        heartbeat = Heartbeat(
            self._store,
            about,
            on_orders=self._on_orders,
            on_lost=self._on_lost,
            gather=self._gather,
            on_beat=self._on_beat,
            on_drain=lambda: self._signals.add(SIGUSR1, self._bell),
            on_order=self._on_worker_order,
            last_number=last_number,
            interval=self._interval_s,
        )
        heartbeat.start()
        logger.info("worker %s takes tasks from %s", about.id, ", ".join(about.queues))
        return heartbeat

    def _last_number(self, id: str) -> int:
        """Return the number of the last beat of this identity; 0 if it is a new one. Raises
        LeaseLost as above.
        """
        store = self._store
        try:
            known = {worker.id: worker for worker in store.workers_of(())}
        except StoreUnreachable:
            if not store.in_parts:
                raise
            seen = {worker.id: worker for worker in known_workers(store)}
            if id not in seen:
                raise
            return seen[id].number + 1  # the place that is away may have heard of one more
        if self._state.resumed and id not in known:
            raise LeaseLost(f"worker {id} was declared lost")
        return known[id].number if id in known else 0

    def _reconcile_after_sleep(self) -> None:
        """Ask whether we still hold our tasks, as soon as we are back: what runs here stands still
        until that is known. The next beat would be due in a while.
        """
        if (
            away := self._suspend_detector.describe_suspend(self._describe_worker().lease)
        ) is not None:
            logger.warning("%s: asking the store what is still ours", away)
            self._was_away = True
        if self._was_away and self._heartbeat is not None and self._try(self._heartbeat.beat_now):
            self._was_away = False

    def _abandon_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.abandon()
            self._heartbeat = None

    def _take_leave(self) -> None:
        """Take leave of the store, and of the identity."""
        if self._heartbeat is not None:
            try:
                if self._heartbeat.stop(self._has_ended):
                    self._state.forget_identity()
                else:
                    logger.warning("something still runs here: leaving it to the next worker")
            except StoreError as error:
                logger.warning("could not take leave of the store: %s", error)

    def _takes_leave_in_time(self) -> bool:
        """Take leave; False if the store did not answer."""
        self._patience.rest(0.0)
        return self._try(self._take_leave)

    def _has_waited_long_enough(self, what: str) -> bool:
        """Return whether one that is to stop has waited long enough for a store that can't be told
        what is left; whoever drains has the time.
        """
        if self._patience.hurries or not self._stopping:
            return self._patience.hurries
        if self._leave_at is None:
            self._leave_at = moment() + _LEAVE_TIMEOUT_S
            text = "waiting for the store for %s at most, to tell it of %s"
            logger.warning(text, format_duration(_LEAVE_TIMEOUT_S), what)
        return moment() >= self._leave_at

    def _leave_uncommitted(self, what: str) -> NoReturn:
        """Go without a word to the store: what is left is for the next worker to tell."""
        text = "leaving %s to the next worker on %s: the store could not be told"
        logger.warning(text, what, self._state.path)
        logging.shutdown()
        os._exit(0)  # other threads wait for the store as well, and could hold us here

    def _has_ended(self, task: Task) -> bool:
        """Return whether nothing of it is left here, nor will be."""
        return True

    def _send_description(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.describe(self._describe_worker())

    # Between the threads

    def _on_orders(self, orders: Orders) -> None:
        self._orders.append(orders)
        self._bell.ring()

    def _on_worker_order(self, order: WorkerOrder) -> None:
        self._worker_orders.append(order)
        self._bell.ring()

    def _carry_out_worker_orders(self) -> None:
        """Do what an operator wants of this worker as a whole."""
        while self._worker_orders:
            order = self._worker_orders.popleft()
            if order.grace is None:
                self._change(order)
            elif not self._ordered_to_stop:
                logger.warning("an operator wants this worker to stop what it runs, and to leave")
                self._ordered_to_stop = True
                self._stop_all(order.grace)

    def _on_lost(self) -> None:
        self._lease_lost = True
        self._bell.ring()

    def _try(self, step: Callable[[], object], queue: str | None = None) -> bool:
        """Do what needs the store, or a certain queue of it, which may be away by itself; if that
        fails, leave it for later.
        """
        try:
            return self._patience.of(queue).attempt(step)
        except LeaseLost:
            self._lease_lost = True
            return False
