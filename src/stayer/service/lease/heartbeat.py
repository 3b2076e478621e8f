"""Keeping a lease: beats in the background, carries reports, takes orders, finds lost workers.

For whoever holds tasks: a `Listener` in a user's process, the worker, the server.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stayer.core.errors import (
    LeaseLost,
    NotHeld,
    StayerError,
    StoreError,
    StoreUnreachable,
    UnknownWorker,
)
from stayer.core.happenings import Interrupt
from stayer.core.liveness.judge import BEATS_IN_A_LEASE, Judge
from stayer.core.model import Report, Task
from stayer.core.worker_model import Beat, Orders, Worker, WorkerOrder
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.service.degraded import log_once
from stayer.store import Waiter, WorkerStore

logger = logging.getLogger(__name__)

_FIRST_RETRY_S = 0.2
"""When to beat again after the first failure; it doubles with each."""
_MOST_DOUBLINGS = 20
"""Enough for any interval; without end, the number would become too large to be one."""
_WATCHED_PAUSE_S = 1.0
"""How often to beat while somebody watches what runs here."""
_FRESH_SHARE = 0.75
"""How much of its length a lease has left that is called fresh."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def moment() -> float:
    """Read this machine's time since its start, suspension included: no one can set it back."""
    return time.clock_gettime(_CLOCK)


def retry_pause(failures: int) -> float:
    """Return after how many seconds to beat again, after so many failures in a row."""
    return _FIRST_RETRY_S * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)


class Heartbeat:
    """The lease of one worker identity, kept by a thread of its own."""

    def __init__(
        self,
        store: WorkerStore,
        worker: Worker,
        *,
        on_orders: Callable[[Orders], None],
        on_lost: Callable[[], None],
        gather: Callable[[], Sequence[Report]] = tuple,
        on_beat: Callable[[float, Beat], None] = lambda good_until, answer: None,
        on_drain: Callable[[], None] = lambda: None,
        on_order: Callable[[WorkerOrder], None] = lambda order: None,
        last_number: int = 0,
        interval: float | None = None,
    ) -> None:
        """Beat every `interval` seconds, which is at most an eighth of the lease. The callbacks run
        in the beating thread and must not beat themselves.

        `gather` is asked for reports before each beat, and again before the next if it failed;
        `on_beat` hears of each that got through, until when the lease is good then, and what the
        store said; `on_drain` once, when somebody wants the worker to take no more; `on_order` of
        each order for the worker as a whole, when it is new.
        """
        self.lost = False
        self.watched = False
        """Somebody looks at what this worker runs: it beats every second."""
        self._store = store
        self._worker = worker
        self._on_orders = on_orders
        self._on_lost = on_lost
        self._interval = min(interval or math.inf, worker.lease / BEATS_IN_A_LEASE)
        self._judge = Judge(self._interval)
        self._beating = threading.Lock()
        self._reporting = threading.Lock()
        self._reports: dict[tuple[str, int], Report] = {}
        self._gather = gather
        self._on_beat = on_beat
        self._on_drain = on_drain
        self._on_order = on_order
        self._told_to_drain = False
        self._last_order = 0
        self._away: set[str] = set()
        self._number = last_number
        self._good_until = 0.0
        self._judged_at = moment()
        self._waiter: Waiter | None = None
        self._thread: threading.Thread | None = None
        self._judging: threading.Thread | None = None
        self._may_judge = True
        self._stopping = False
        self._alarm = threading.Event()

    def start(self) -> None:
        """Register by a first beat, which may raise; then go on in the background."""
        self.beat_now()
        self._waiter = self._store.waiter(self._worker.id, ())
        self._thread = threading.Thread(
            target=self._run, name=f"heartbeat of {self._worker.id}", daemon=True
        )
        self._thread.start()

    def describe(self, worker: Worker) -> None:
        """Say something else of the same worker from the next beat on."""
        self._worker = worker
        self._ring()

    def report(self, report: Report) -> None:
        """Let the next beat carry this."""
        with self._reporting:
            key = report.id, report.attempt
            earlier = self._reports.get(key)
            self._reports[key] = report if earlier is None else _merge(earlier, report)

    def beat_now(self) -> None:
        """Beat in the caller's thread; raises LeaseLost, and StoreError if it did not get through.

        What it carried is kept for the next one then.
        """
        with self._beating:
            if self.lost:
                raise LeaseLost(f"worker {self._worker.id} has lost its lease")
            try:
                self._beat()
            except LeaseLost:
                self.lost = True
                self._on_lost()
                raise

    def abandon(self) -> None:
        """Beat no more, and say nothing: whoever had this lease is somebody else now, or leaves it
        to another. Returns when no beat is under way.
        """
        self.lost = True
        # The thread that declares others lost may go on: it is fenced like all of this identity.
        self._halt()

    def is_current(self) -> bool:
        """Tell whether the lease has certainly not ended."""
        return not self.lost and moment() < self._good_until

    def is_fresh(self) -> bool:
        """Tell whether the lease is good for most of its length."""
        return not self.lost and self._good_until - moment() > self._worker.lease * _FRESH_SHARE

    def stop(self, has_ended: Callable[[Task], bool] = lambda task: True) -> bool:
        """Take leave: hand back what is still held, and unregister. False: something of it still
        runs, as far as `has_ended` can tell, so it is held on, until somebody comes for it or the
        lease is over.
        """
        self._may_judge = False
        if self._judging is not None:
            self._judging.join()  # while beats go on: it may take longer than a lease
        self._halt()
        with self._beating:
            if self.lost or not self._number:
                return True
            try:
                self._beat()  # a beat that was interrupted has left the store with another number
            except LeaseLost:
                self.lost = True
                return True
            left = self._store.holdings(self._worker.id)
            if not all(has_ended(task) for task in left):
                return False
            for task in left:
                try:
                    control.settle(self._store, task, Interrupt("its listener closed"))
                except NotHeld:
                    logger.info("task %s was taken away meanwhile", task.id)
            try:
                worker_control.return_lost_tasks(
                    self._store, self._store.drop_worker(self._worker.id, self._number)
                )
            except (LeaseLost, UnknownWorker):
                self.lost = True  # declared lost without knowing: there is no leave to take
            return True

    def _halt(self) -> None:
        """End the thread, and its listening."""
        self._stopping = True
        self._ring()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None

    def _ring(self) -> None:
        self._alarm.set()
        if self._waiter is not None:
            self._waiter.ring()

    def _run(self) -> None:
        assert self._waiter is not None
        pause, failures = self._interval, 0
        while not self._stopping:
            self._wait(pause)
            if self._stopping:
                break
            try:
                self.beat_now()
                pause = min(self._interval, _WATCHED_PAUSE_S) if self.watched else self._interval
                if failures:
                    log_once.is_over()
                    logger.info("beats of %s get through again", self._worker.id)
                failures = 0
            except LeaseLost:
                break
            except Exception as error:
                # Nothing is given up for a store that does not answer, nor for a full disk or a
                # defect of ours: the lease decides.
                failures += 1
                pause = min(self._interval, retry_pause(failures))
                if isinstance(error, StayerError):
                    failed = f"beat of {self._worker.id} failed, trying again"
                    log_once.warn_once(logger, failed, error, even_if_logged=True)
                else:
                    logger.exception("beat of %s failed, trying again", self._worker.id)

    def _wait(self, pause: float) -> None:
        assert self._waiter is not None
        try:
            self._waiter.wait(pause)
        except StoreError:
            self._alarm.wait(pause)
            self._alarm.clear()

    def _beat(self) -> None:
        with self._reporting:
            carried, self._reports = self._reports, {}
        self._number += 1
        before, wall = moment(), time.time()
        try:
            answer = self._deliver((*carried.values(), *self._gather()))
        except StoreError:
            self._put_back(carried)  # else they are what went wrong, and would go wrong again
            raise
        # A machine that is paused from outside has a clock that stood still, and is set right then.
        paused = max(0.0, time.time() - wall - (moment() - before))
        self._good_until = max(self._good_until, before + self._worker.lease - paused)
        self.watched = answer.watched
        logger.debug("beat %d of %s got through", self._number, self._worker.id)
        self._log_who_is_away(answer.away)
        undelivered = set(answer.undelivered)
        self._put_back({key: each for key, each in carried.items() if each.id in undelivered})
        self._on_beat(self._good_until, answer)
        for orders in answer.orders:
            self._on_orders(orders)
        if answer.drain and not self._told_to_drain:
            self._told_to_drain = True
            self._on_drain()
        if answer.order is not None and answer.order.number > self._last_order:
            self._last_order = answer.order.number
            self._on_order(answer.order)
        self._declare_dead_workers_lost(before, answer)

    def _deliver(self, reports: tuple[Report, ...]) -> Beat:
        """Send one beat, once more if the answer got lost: by the nonce the store knows it."""
        nonce = secrets.token_hex(8)
        try:
            return self._store.beat(self._worker, self._number, nonce, reports)
        except StoreError:
            return self._store.beat(self._worker, self._number, nonce, reports)

    def _put_back(self, carried: dict[tuple[str, int], Report]) -> None:
        with self._reporting:
            for key, report in carried.items():
                later = self._reports.get(key)
                self._reports[key] = report if later is None else _merge(report, later)

    def _log_who_is_away(self, away: Sequence[str]) -> None:
        """Once, and when they are back."""
        gone, back = sorted(set(away) - self._away), sorted(self._away - set(away))
        self._away = set(away)
        if gone:
            logger.warning(
                "%s can't be reached: nothing begins there, and what runs is told of later",
                ", ".join(gone),
            )
        if back:
            logger.info("%s can be reached again", ", ".join(back))

    def _declare_dead_workers_lost(self, at: float, answer: Beat) -> None:
        dead = self._judge.observe(at, answer.suspects)
        # A judge may have died before all tasks were returned: look once a lease.
        if not dead and at - self._judged_at < self._worker.lease:
            return
        if not self._may_judge or (self._judging is not None and self._judging.is_alive()):
            return
        # It may take long, say where replicas have to confirm it: the next beat does not wait.
        judging = threading.Thread(
            target=self._declare_lost, args=(dead,), name=f"judge of {self._worker.id}", daemon=True
        )
        self._judging, self._judged_at = judging, at
        try:
            judging.start()
        except RuntimeError:  # no more threads can be had: the next beat tries again
            self._judging, self._judged_at = None, -math.inf

    def _declare_lost(self, dead: dict[str, int]) -> None:
        try:
            returned = worker_control.return_lost_tasks(
                self._store, self._store.declare_lost(self._worker.id, dead)
            )
        except LeaseLost:
            return  # as the next beat will say
        except StoreUnreachable as error:
            # The beat got through: a part of the store may be away. Whoever is dead stays so, but
            # may be no suspect any more: it is looked for again with the next beat.
            self._judged_at = -math.inf
            if dead:
                held = f"what {', '.join(dead)} held is given to nobody yet"
                log_once.warn_once(logger, held, error, even_if_logged=True)
            return
        except Exception:
            if not self._stopping:
                logger.exception("dead workers can't be declared lost now")
            return
        if dead or returned:
            logger.warning(
                "declared lost: %s; took back %d of their tasks",
                ", ".join(dead) or "nobody new",
                returned,
            )


def _merge(earlier: Report, later: Report) -> Report:
    return replace(
        later,
        progress=later.progress or earlier.progress,
        usage=later.usage or earlier.usage,
        statistics=later.statistics or earlier.statistics,
        paused=earlier.paused if later.paused is None else later.paused,
        checkpoint=earlier.checkpoint if later.checkpoint is None else later.checkpoint,
        log=earlier.log + later.log,
        acknowledged=max(earlier.acknowledged, later.acknowledged),
    )
