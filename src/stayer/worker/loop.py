"""The worker's loop: each step a named call, none of which may end it.

A store that does not answer stops nothing that runs: what needs it is tried again later, outcomes
wait on disk, and only the fence takes a task away.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from msgspec import Struct

from stayer.core.errors import LeaseLost, StoreError
from stayer.core.lifecycle import Interrupt, decide
from stayer.core.model import Orders, Report, Task, Worker
from stayer.core.version import __version__
from stayer.heart import Heart, moment
from stayer.store import Store, Waiter
from stayer.worker.adoption import sweep_strays
from stayer.worker.bell import Bell
from stayer.worker.handlers import Handlers
from stayer.worker.held import Held
from stayer.worker.nursery import Nursery, NurseryGone
from stayer.worker.orders import carry_out
from stayer.worker.run import LOG_CAP, Run
from stayer.worker.settle import refresh, settle_outcomes, settle_starts
from stayer.worker.state import StateDirectory

logger = logging.getLogger("stayer.worker")

_TICK = 1.0
_SOON = 0.003
_DUE = 1000
_BACKOFF = (0.1, 10.0)


class Options(Struct, frozen=True, kw_only=True):
    """How a worker behaves."""

    queues: tuple[str, ...] = ("default",)
    evenly: bool = False
    slots: int = 1
    lease: float = 120.0
    grace: float = 30.0
    kill_interval: float = 10.0
    time_limit: float | None = None
    silence_limit: float | None = None
    memory_limit: int | None = None
    fence: str = "freeze"


class WorkerLoop:
    """One worker, from its start to its leave."""

    def __init__(
        self, store: Store, state: StateDirectory, handlers: Handlers, options: Options
    ) -> None:
        self._store = store
        self._state = state
        self._handlers = handlers
        self._options = options
        self._nursery = Nursery(state.path)
        self._held: dict[tuple[str, int], Held] = {}
        self._heart: Heart | None = None
        self._ear: threading.Thread | None = None
        self._waiter: Waiter | None = None
        self._orders: deque[Orders] = deque()
        self._signals: deque[int] = deque()
        self._bell = Bell()
        self._next_due = 0.0
        self._next_reconcile = 0.0
        self._not_before = 0.0
        self._pause = _BACKOFF[0]
        self._turn = 0
        self._stirred = True
        self._draining = self._stopping = self._leaving = self._lease_lost = False

    def run(self) -> None:
        """Until it is told to go and holds nothing more; or told to leave all as it is."""
        self._begin()
        while not self._finished():
            try:
                self._once()
            except Exception:
                # A full disk, a defect: the tasks run on, and so must whoever looks after them.
                logger.exception("something went wrong, going on")
                self._bell.sleep(_TICK)
        self._end()

    def _once(self) -> None:
        self._hear_signals()
        self._become_new_if_buried()
        self._carry_out_orders()
        self._mark_started()
        self._send_urgent_news()
        self._collect_outcomes()
        self._reconcile()
        self._promote()
        self._reserve_into_free_slots()
        self._wait()

    # Beginning and end

    def _begin(self) -> None:
        self._listen_to_signals()
        self._nursery.retire_others()
        self._start_heart()
        for run in self._state.runs():
            self._adopt(run)

    def _listen_to_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # in tests

        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)

        for number in (
            signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT,
        ):  # fmt: skip
            signal.signal(number, note)
        self._bell.ring_on_signals()

    def _start_heart(self) -> None:
        """Register, however long the store takes to answer."""
        while self._heart is None and not (self._leaving or self._stopping):
            try:
                self._heart = self._registered_heart()
            except LeaseLost:
                self._state.void_lease()
                self._state.new_identity()
            except StoreError as error:
                logger.warning("the store does not answer, trying again: %s", error)
                self._bell.sleep(self._next_pause())
                self._hear_signals()

    def _registered_heart(self) -> Heart:
        known = {worker.id: worker for worker in self._store.workers()}
        me = self._state.worker_id
        if self._state.resumed and me not in known:
            raise LeaseLost(f"worker {me} was given up as dead")
        heart = Heart(
            self._store,
            self._about_me(),
            on_orders=self._on_orders,
            on_lost=self._on_lost,
            gather=self._gather,
            on_beat=self._on_beat,
            last_number=known[me].number if me in known else 0,
        )
        heart.start()
        self._waiter = self._store.waiter(me, self._options.queues)
        self._ear = threading.Thread(target=self._listen, args=(self._waiter,), daemon=True)
        self._ear.start()
        logger.info("worker %s takes tasks from %s", me, ", ".join(self._options.queues))
        return heart

    def _about_me(self) -> Worker:
        return Worker(
            id=self._state.worker_id,
            node=self._state.node,
            pid=os.getpid(),
            queues=self._options.queues,
            slots=self._options.slots,
            version=__version__,
            draining=self._draining,
            lease=self._options.lease,
        )

    def _finished(self) -> bool:
        return self._leaving or ((self._stopping or self._draining) and not self._held)

    def _end(self) -> None:
        if self._leaving:
            logger.info("leaving %d tasks running for the next worker", len(self._held))
        elif self._heart is not None:
            self._nursery.retire()
            try:
                self._heart.stop()
                self._state.forget_identity()
            except StoreError as error:
                logger.warning("could not take leave of the store: %s", error)
        self._state.close()

    # Steps

    def _hear_signals(self) -> None:
        while self._signals:
            number = self._signals.popleft()
            logger.info("got %s", signal.Signals(number).name)
            if number == signal.SIGHUP:
                self._leaving = True
            elif number == signal.SIGUSR1:
                self._draining = True
                if self._heart is not None:
                    self._heart.describe(self._about_me())
            elif number == signal.SIGQUIT or (number == signal.SIGINT and self._stopping):
                self._stop_all(0.0)
            else:
                self._stop_all(self._options.grace)

    def _stop_all(self, grace: float) -> None:
        self._stopping = True
        for held in self._held.values():
            if held.stop_grace is None or grace < held.stop_grace:
                held.stop_grace = grace
                held.run.order(stop={"why": "interrupt", "grace": grace})

    def _become_new_if_buried(self) -> None:
        """Act as if buried: kill what runs under the old name, then begin again under a new one."""
        if not self._lease_lost:
            return
        logger.error("worker %s lost its lease: its tasks are killed", self._state.worker_id)
        self._state.void_lease()
        for held in self._held.values():
            held.lost = True
        self._lease_lost = False
        self._heart = None
        self._state.new_identity()
        self._start_heart()

    def _carry_out_orders(self) -> None:
        while self._orders:
            orders = self._orders.popleft()
            held = self._held.get((orders.id, orders.attempt))
            if held is None:
                continue
            last = carry_out(held, orders.orders, self._options.grace)
            if self._heart is not None:
                report = Report(id=orders.id, attempt=orders.attempt, acknowledged=last)
                self._heart.report(report)

    def _mark_started(self) -> None:
        """Tell the store of processes that have come to run."""
        fresh: list[tuple[Held, int]] = []
        for held in self._held.values():
            if held.task.state == "reserved" and not held.run.has_ended():
                running = held.run.running
                if running is not None:
                    self._bell.ring_when(held.run.pidfd())
                    fresh.append((held, running["pid"]))
                elif held.is_overdue():
                    self._nursery.start(held.run.folder)  # the line got lost with an old nursery
        if fresh:
            self._try(lambda: self._tell_starts(fresh))

    def _tell_starts(self, fresh: list[tuple[Held, int]]) -> None:
        if not settle_starts(self._store, fresh):
            self._next_reconcile = 0.0

    def _send_urgent_news(self) -> None:
        if self._heart is not None and any(held.new_checkpoint() for held in self._held.values()):
            self._try(self._heart.beat_now)

    def _collect_outcomes(self) -> None:
        for held in self._held.values():
            if held.has_vanished() and held.run.void():
                said = {"why": "fence", "note": "its run directory was deleted"}
                held.run.declare_ended({"stop": said})
        ended = [held for held in self._held.values() if held.run.has_ended()]
        if ended:
            self._try(lambda: self._tell_outcomes(ended))

    def _tell_outcomes(self, ended: list[Held]) -> None:
        # The last of log and checkpoint come before the end.
        mine = [held for held in ended if held.task.worker == self._state.worker_id]
        if self._heart is not None and any(held.has_news() for held in mine):
            self._heart.beat_now()
            while any(held.log_left() for held in mine):
                self._heart.beat_now()
        for held in settle_outcomes(self._store, ended):
            self._forget(held)

    def _forget(self, held: Held) -> None:
        del self._held[held.key]
        self._bell.forget(held.run.pidfd())
        held.run.remove()
        self._stirred = True

    def _reconcile(self) -> None:
        """Compare what runs here with what the store says we hold."""
        frozen = [held for held in self._held.values() if _is_fenced(held)]
        now = moment()
        if not frozen and now < self._next_reconcile:
            return
        if self._heart is None or not self._heart.is_current():
            return
        if self._try(lambda: self._compare(frozen)):
            self._next_reconcile = now + self._options.lease

    def _compare(self, frozen: list[Held]) -> None:
        theirs = {
            (task.id, task.attempt): task for task in self._store.holdings(self._state.worker_id)
        }
        confirmed = moment()
        for key, held in self._held.items():
            if held.task.worker != self._state.worker_id or key in theirs:
                continue
            if not held.lost and not held.run.has_ended():
                logger.warning("task %s is no longer ours: killing it", held.task.id)
                held.lost = True
                held.run.order(stop={"why": "fence", "grace": 0.0})
        for held in frozen:
            if held.key in theirs:
                held.run.order(thaw=confirmed)
        for key, task in theirs.items():
            if key not in self._held:
                self._find_or_hand_back(task)

    def _find_or_hand_back(self, task: Task) -> None:
        run = self._state.run_for(task)
        if (run.folder / "task.json").exists() and (run.is_kept() or run.has_ended()):
            self._hold(Held(task, run))
            return
        if run.void():
            sweep_strays(run.folder)
            self._store.commit([decide(task, Interrupt("not found on its node"))])
            run.remove()

    def _promote(self) -> None:
        if self._stirred or time.time() >= self._next_due:
            self._try(self._promote_due)

    def _promote_due(self) -> None:
        following = self._store.promote(_DUE)
        ahead = 60.0 if following is None else max(0.0, following - self._store.now())
        self._next_due = time.time() + min(ahead, 60.0)

    def _reserve_into_free_slots(self) -> None:
        free = self._options.slots - len(self._held)
        if free <= 0 or not self._stirred or self._stopping or self._draining or self._leaving:
            return
        self._stirred = False
        if not self._try(lambda: self._reserve(free)):
            self._stirred = True
            self._next_reconcile = 0.0  # the answer may have got lost

    def _reserve(self, free: int) -> None:
        queues = self._options.queues
        if self._options.evenly:
            self._turn = (self._turn + 1) % len(queues)
            queues = queues[self._turn :] + queues[: self._turn]
        tasks = self._store.reserve(self._state.worker_id, queues, free, self._handlers.handles)
        for task in tasks:
            self._start_task(task)
        self._stirred = len(tasks) == free

    def _start_task(self, task: Task) -> None:
        run = self._state.run_for(task)
        try:
            saved = self._store.checkpoint(task.id) if task.attempt > 1 else None
            run.prepare(task, self._keeper_spec(task, run), saved.data if saved else None)
            self._hold(Held(task, run))
            self._nursery.start(run.folder)
        except (OSError, NurseryGone) as error:
            logger.error("task %s can't be started here: %s", task.id, error)
            self._held.pop((task.id, task.attempt), None)
            if run.void():
                self._store.commit([decide(task, Interrupt(f"can't be started here: {error}"))])
                self._not_before = moment() + _BACKOFF[1]

    def _keeper_spec(self, task: Task, run: Run) -> dict[str, Any]:
        options = self._options
        limits = {
            "time": options.time_limit,
            "silence": options.silence_limit,
            "memory": options.memory_limit,
        }
        return {
            "argv": self._handlers.argv(task),
            "env": self._handlers.env(task, run.folder),
            "cwd": task.cwd or os.getcwd(),
            "lease": str(self._state.lease_path),
            "grace": options.grace,
            "kill_interval": options.kill_interval,
            "fence": options.fence,
            "limits": {name: value for name, value in limits.items() if value},
            "log_cap": LOG_CAP,
            "stack_signal": self._handlers.stack_signal(task),
        }

    def _wait(self) -> None:
        timeout = min(_TICK, max(0.0, self._next_due - time.time()))
        if any(held.task.state == "reserved" for held in self._held.values()):
            timeout = min(timeout, _SOON)
        self._bell.sleep(timeout)

    # Between the threads

    def _listen(self, waiter: Waiter) -> None:
        """The ear: tells the loop when there may be work."""
        while waiter is self._waiter or self._waiter is None:
            try:
                if waiter.wait(60.0):
                    self._stirred = True
                    self._bell.ring()
            except StoreError:
                time.sleep(_BACKOFF[0])

    def _on_orders(self, orders: Orders) -> None:
        self._orders.append(orders)
        self._bell.ring()

    def _on_lost(self) -> None:
        self._lease_lost = True
        self._bell.ring()

    def _gather(self) -> list[Report]:
        me = self._state.worker_id
        mine = [held for held in list(self._held.values()) if held.task.worker == me]
        return [report for held in mine if (report := held.gather()) is not None]

    def _on_beat(self, good_until: float) -> None:
        self._state.write_lease(good_until, self._options.lease)
        for held in list(self._held.values()):
            held.delivered()

    # Small things

    def _hold(self, held: Held) -> None:
        self._held[held.key] = held

    def _adopt(self, run: Run) -> None:
        """A run directory from before: take up what lives or has ended, clear away the rest."""
        about = run.about
        task = Task(
            about["task"]["id"],
            about["task"]["queue"],
            state="reserved",
            worker=about["worker"],
            attempt=about["attempt"],
        )
        held = Held(task, run)
        if not run.has_ended() and not run.is_kept():
            # Of another identity (before a reboot, or copied from elsewhere) only an outcome that a
            # keeper wrote is believed: the original may be running. Burial sees to the rest.
            if task.worker != self._state.worker_id or not run.void():
                return
            sweep_strays(run.folder)
            never = {"not_started": "its worker died before it could begin", "node": True}
            note: dict[str, Any] = {"keeper_died": None} if run.running else never
            run.declare_ended(note)
        self._try(lambda: refresh(self._store, held))
        self._hold(held)
        self._bell.ring_when(run.pidfd())
        logger.info("adopted task %s, attempt %d", task.id, task.attempt)

    def _next_pause(self) -> float:
        pause, self._pause = self._pause, min(self._pause * 2, _BACKOFF[1])
        return pause

    def _try(self, step: Callable[[], object]) -> bool:
        """Do what needs the store; if that fails, say so and leave it for later."""
        if moment() < self._not_before:
            return False
        try:
            step()
        except LeaseLost:
            self._lease_lost = True
            return False
        except StoreError as error:
            pause = self._next_pause()
            self._not_before = moment() + pause
            logger.warning("the store does not answer, again in %.1f s: %s", pause, error)
            return False
        self._pause = _BACKOFF[0]
        return True


def _is_fenced(held: Held) -> bool:
    running = held.run.running
    return running is not None and "fenced" in running["stopped"] and not held.run.has_ended()
