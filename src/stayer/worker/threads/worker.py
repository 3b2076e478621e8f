"""The worker of short functions: beats for a pool of threads in another process, looks after it.

The pool talks to the store about tasks; here is what must go on when a task keeps the pool from
running, or kills it: the lease, the orders, the news, and handing back what a dead pool held.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.errors import Refused
from stayer.core.happenings import Happening, Interrupt, Note, Start, Stop, WorkerLost
from stayer.core.lifecycle import NOT_TO_THREADS, decide
from stayer.core.model import RUNNING, Change, Report, Task
from stayer.core.queue_model import Kept
from stayer.core.safe_text import LogLevel
from stayer.core.units import format_duration
from stayer.core.version import __version__
from stayer.core.worker_model import Beat, Orders, Worker, WorkerOrder
from stayer.keeper.kernel import awake
from stayer.service.degraded.partial import held_by
from stayer.service.lease.heartbeat import moment
from stayer.service.upkeep.queue_stats import Sampler
from stayer.store import Store
from stayer.worker.base import TICK_S, BeatingWorker
from stayer.worker.beat_size import BEAT_LIMIT_BYTES, weight
from stayer.worker.retention import Purger
from stayer.worker.state_directory import StateDirectory
from stayer.worker.threads import protocol
from stayer.worker.threads.main import LOST_LEASE
from stayer.worker.threads.process import (
    PoolProcess,
    explain_end,
    forget_begun,
    is_gone,
    read_begun,
    write_excuse,
)
from stayer.worker.threads.rules import handles_of
from stayer.worker.watchdog import Watchdog

logger = logging.getLogger("stayer.worker")

_TIDY_PAUSE_S = 0.01
_RESTART_BACKOFF_S = (0.2, 30.0)
_WHAT_THREADS_HELD = "what its threads held"
_LONG_LIFE_S = 60.0
"""A pool that lived so long is started again at once."""


class ThreadOptions(Struct, frozen=True, kw_only=True):
    """How a worker with threads behaves."""

    store: str
    """The URL with its password, for the pool."""
    token: str | None = None
    app: str
    names: tuple[str, ...]
    """Of the tasks in it, as patterns."""
    threads: int
    queues: tuple[str, ...] = ("default",)
    evenly: bool = False
    lease: float = 120.0
    heartbeat: float | None = None
    grace: float = 30.0
    time_limit: float | None = None
    environment: dict[str, str] = {}
    log: str | None = None
    log_level: LogLevel = "info"
    retention: dict[Kept, float] = {}


class ThreadsWorker(BeatingWorker):
    """One worker and its pool, from its start to its leave."""

    def __init__(self, store: Store, state: StateDirectory, options: ThreadOptions) -> None:
        super().__init__(store, state, options.heartbeat)
        self._given = self._options = options
        """As it was started, and with what an operator has changed since."""
        self._pool: PoolProcess | None = None
        self._sampler = Sampler(store)
        self._passed_on: dict[tuple[str, int], int] = {}
        self._gathered: tuple[PoolProcess, list[protocol.News]] | None = None
        self._took_back = False
        self._proven = options.queues
        self._starting = threading.Lock()
        self._why, self._charged = explain_end(state.path)
        self._started_at = self._ended_at = 0.0
        self._start_at = 0.0
        self._restart_pause = _RESTART_BACKOFF_S[0]
        self._kill_at: float | None = None
        self._watchdog = Watchdog(options.lease, options.grace, options.time_limit)
        self._answered_at: float | None = None
        """When the threads last answered, by the store's clock, if they don't any more."""
        self._overdue: Mapping[tuple[str, int], Happening] = {}
        self._tidying = Purger(store, options.retention)

    def _begin(self) -> None:
        if any(self._state.runs()):
            self._state.close()
            raise Refused(
                f"{self._state.path} has tasks of a worker that runs them in processes: give the "
                "one with --threads a --state-dir of its own"
            )
        self._signals.listen(self._bell)
        self._start_heartbeat()

    def _once(self) -> None:
        self._handle_signals()
        self._carry_out_worker_orders()
        self._reconcile_after_sleep()
        self._start_anew_if_lease_lost()
        self._look_after_pool()
        self._take_back()
        self._start_pool()
        self._pass_on_orders()
        self._send_urgent_news()
        self._tidy_up()

    def _wait(self) -> None:
        self._bell.sleep(_TIDY_PAUSE_S if self._tidying.has_more else TICK_S)

    # Beginning and end

    def _describe_worker(self) -> Worker:
        return Worker(
            id=self._state.worker_id,
            node=self._state.node,
            pid=os.getpid(),
            queues=self._options.queues,
            slots=self._options.threads,
            version=__version__,
            draining=self._draining,
            lease=self._options.lease,
            handles=replace(handles_of(self._options.names), answered_at=self._answered_at),
        )

    def _is_finished(self) -> bool:
        """Told to go, and the pool is gone; what could not be handed back waits for the next."""
        is_ending = self._stopping or self._draining
        if not is_ending or self._pool is not None or not is_gone(self._state.path):
            return False
        has_nothing = self._took_back or self._heartbeat is None or not self._stopping
        return has_nothing or self._has_waited_long_enough(_WHAT_THREADS_HELD)

    def _end(self) -> None:
        self._take_back()
        if not self._took_back and not self._charged:
            write_excuse(self._state.path, self._why)
        if not self._stopping:
            self._take_leave()
        elif self._heartbeat is not None and not (self._took_back and self._takes_leave_in_time()):
            self._leave_uncommitted("its name" if self._took_back else _WHAT_THREADS_HELD)
        self._state.close()

    # Steps

    def _handle_signals(self) -> None:
        for number in self._signals.take_all():
            if number == signal.SIGUSR2:
                continue  # there is nothing to read anew
            if number == signal.SIGUSR1:
                self._draining = True
                self._send_description()
                self._send(protocol.Finish(stop=False))
            elif number == signal.SIGQUIT or (number == signal.SIGINT and self._stopping):
                self._stop_all(0.0)
            else:
                # HUP too: threads can't outlive their process.
                self._stop_all(self._options.grace)

    def _stop_all(self, grace: float) -> None:
        self._stopping = True
        self._patience.be_brief()
        if self._pool is not None:
            within = (
                f"{format_duration(grace)} to end; Ctrl-C again kills them" if grace else "no time"
            )
            logger.info("stopping the threads: what they run has %s", within)
        at = awake() + grace
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)
        self._send(protocol.Finish(stop=True))

    def _change(self, order: WorkerOrder) -> None:
        """Take from other queues, or run fewer at once; what runs goes on."""
        given = self._given
        if order.slots is not None and order.slots > given.threads:
            logger.warning(
                "an operator wants %d slots: it was started with %d threads, and has no more",
                order.slots, given.threads,
            )  # fmt: skip
        self._options = replace(
            given,
            queues=given.queues if order.queues is None else order.queues,
            threads=min(order.slots or given.threads, given.threads),
        )
        self._send(protocol.Change(self._options.queues, self._options.threads))
        self._send_description()
        logger.info(
            "an operator has changed this worker: it takes tasks from %s, %d at once",
            ", ".join(self._options.queues), self._options.threads,
        )  # fmt: skip

    def _start_anew_if_lease_lost(self) -> None:
        """If the lease is lost, kill what runs, and begin again under a new name."""
        if not self._lease_lost:
            return
        logger.error("worker %s lost its lease: its tasks are killed", self._state.worker_id)
        self._state.void_lease()
        if self._pool is not None:
            self._pool.kill()
            self._let_go_of_pool(self._pool)
        if not is_gone(self._state.path):
            return  # it is dying: look again
        forget_begun(self._state.path)
        self._abandon_heartbeat()
        self._lease_lost = False
        self._state.new_identity()
        self._start_heartbeat()

    def _look_after_pool(self) -> None:
        pool = self._pool
        if pool is None:
            return
        if self._kill_at is not None and awake() >= self._kill_at:
            self._why, self._charged = "its worker stopped", False
            pool.kill()
            self._let_go_of_pool(pool)
            return
        code = pool.exit_code()
        if code is not None:
            self._explain(code)
            self._let_go_of_pool(pool)
        else:
            pool.pass_on()
            self._try(lambda: self._watch(pool))

    def _watch(self, pool: PoolProcess) -> None:
        """Say so if its threads don't answer, and kill it for those that are past their time."""
        now = awake()
        if self._heartbeat is None or not self._heartbeat.is_current():
            pool.extend_answer_deadline(now)  # the machine slept, and its guard has it stand still
        silence = self._watchdog.silence(pool, now)
        if silence is None:
            if self._answered_at is not None:
                logger.info("the threads answer again")
                self._be_stuck_since(None)
            return
        at_work = pool.at_work_on()
        names = ", ".join(sorted(id for id, _ in at_work)) or "none"
        if self._answered_at is None:
            answered_at = self._store.now() - silence
            logger.error(
                "the threads have not answered for %s: one of these tasks may keep all from "
                "running: %s", format_duration(silence), names,
            )  # fmt: skip
            self._be_stuck_since(answered_at)
        if not self._watchdog.is_time_to_look(now):
            return
        ours = self._state.worker_id
        tasks = [
            task
            for task in self._store.get([id for id, _ in at_work])
            if task is not None and task.worker == ours and (task.id, task.attempt) in at_work
        ]
        self._overdue = self._watchdog.overdue(tasks, silence, now)
        if self._overdue:
            late = ", ".join(sorted(id for id, _ in self._overdue))
            self._why = f"its threads did not answer for {format_duration(silence)}"
            self._charged = True
            logger.error("%s, and %s should have ended: killing all of them", self._why, late)
            pool.kill()
            self._let_go_of_pool(pool)

    def _be_stuck_since(self, answered_at: float | None) -> None:
        self._answered_at = answered_at
        self._send_description()
        if self._heartbeat is not None:
            self._heartbeat.beat_now()

    def _explain(self, code: int) -> None:
        """Say why the pool is gone, and whether what it ran may have done that."""
        if code == 0:
            self._why, self._charged = "its worker stopped", False
        elif code == LOST_LEASE:
            self._why, self._charged = "its lease was refused", False
            if self._heartbeat is not None:
                self._try(self._heartbeat.beat_now)  # which will say the same, if it is so
        elif code < 0:
            # The guard died: by its timer, before the lease ended.
            self._why, self._charged = "its lease was over", False
            logger.error("the lease was not renewed in time: what ran in threads was killed")
        else:
            how = f"exit code {code}" if code < 128 else _signal_name(code - 128)
            self._why, self._charged = f"the process of its thread ended by {how}", True
            logger.error("the process with the threads ended by %s", how)
        if moment() - self._started_at > _LONG_LIFE_S or code <= 0:
            self._restart_pause = _RESTART_BACKOFF_S[0]
        else:
            self._start_at = moment() + self._restart_pause
            self._restart_pause = min(self._restart_pause * 2, _RESTART_BACKOFF_S[1])

    def _let_go_of_pool(self, pool: PoolProcess) -> None:
        pool.close()
        self._pool, self._ended_at = None, moment()
        self._took_back = False
        self._passed_on.clear()
        if self._answered_at is not None:
            self._answered_at = None
            self._send_description()

    def _take_back(self) -> None:
        """Give to others what the pool held when it ended, or the one of the worker before."""
        if self._took_back or self._pool is not None or self._lease_lost or self._heartbeat is None:
            return
        if is_gone(self._state.path):
            self._took_back = self._try(self._hand_back)

    def _hand_back(self) -> None:
        started = read_begun(self._state.path) if self._charged else set()
        # What is in a part of the store that is away is left to the pool.
        held = held_by(self._store, self._state.worker_id, self._options.queues).tasks
        ago = moment() - self._ended_at if self._ended_at else 0.0
        changes: list[Change] = []
        for task in held:
            late = self._overdue.get((task.id, task.attempt))
            if late is not None and not task.cancel_wanted:
                changes += _make_ended(task, late, ago)
            elif (task.id, task.attempt) in started or (self._charged and task.state == "started"):
                changes += _make_lost(task, self._why, ago)
            else:
                changes.append(decide(task, Interrupt(self._why), ago))
        answers = self._store.commit(changes) if changes else []
        if None in answers:
            raise _TaskChanged
        if held:
            logger.warning("handed back %d tasks: %s", len(held), self._why)
        self._overdue = {}
        forget_begun(self._state.path)

    def _start_pool(self) -> None:
        if self._pool is not None or not self._took_back or self._stopping or self._draining:
            return
        if self._heartbeat is None or not self._heartbeat.is_current() or moment() < self._start_at:
            return
        options = self._options
        self._started_at = moment()
        with self._starting:
            setup = protocol.Setup(
                store=options.store,
                token=options.token,
                worker=self._state.worker_id,
                app=options.app,
                queues=options.queues,
                confined=self._proven,
                evenly=options.evenly,
                threads=self._given.threads,
                lease=options.lease,
                time_limit=options.time_limit,
                state=str(self._state.path),
                pings=True,
                log_level=options.log_level,
            )
            self._pool = PoolProcess(
                setup, self._state.lease_path, options.environment, options.log, self._bell
            )
        if options is not self._given:
            self._send(protocol.Change(options.queues, options.threads))

    def _pass_on_orders(self) -> None:
        while self._orders:
            orders = self._orders.popleft()
            key, last = (orders.id, orders.attempt), orders.orders[-1].number
            if self._passed_on.get(key, 0) >= last or self._pool is None or self._heartbeat is None:
                continue
            self._passed_on[key] = last
            self._try(lambda orders=orders: self._refuse_in_part(orders))  # type: ignore[misc]
            self._send(protocol.Ask(orders))
            self._heartbeat.report(Report(id=orders.id, attempt=orders.attempt, acknowledged=last))

    def _refuse_in_part(self, orders: Orders) -> None:
        """Say in its history what can't be done to a thread. Mostly nobody asks: see `control`."""
        refused = [order.verb for order in orders.orders if order.verb in NOT_TO_THREADS]
        task = self._store.get([orders.id])[0] if refused else None
        ours = self._state.worker_id, orders.attempt
        if task is not None and task.state in RUNNING and (task.worker, task.attempt) == ours:
            tell = (Note("refused", f"{verb}: it runs in a thread") for verb in refused)
            self._store.commit([decide(task, each) for each in tell])

    def _send_urgent_news(self) -> None:
        pool, heartbeat = self._pool, self._heartbeat
        if (
            pool is not None
            and heartbeat is not None
            and any(news.urgent for news in list(pool.news))
        ):
            self._try(heartbeat.beat_now)

    def _tidy_up(self) -> None:
        if not self._sampler.remaining_s:
            self._try(self._sampler.look)
        if self._tidying.is_due():
            self._try(self._tidying.step)

    # Between the threads

    def _gather(self) -> list[Report]:
        pool = self._pool
        if pool is None:
            self._gathered = None
            return []
        self._gathered = pool, _as_many_as_fit(list(pool.news))
        return [news.report for news in self._gathered[1]]

    def _on_beat(self, good_until: float, answer: Beat) -> None:
        if self._is_good_for_all_that_runs(answer.proven):
            self._state.write_lease(good_until, self._options.lease)
        if self._gathered is not None and self._gathered[1]:
            pool, gathered = self._gathered
            for _ in gathered:
                pool.news.popleft()
            if pool.news:
                self._bell.ring()  # there was no room for these
            undelivered = [news for news in gathered if news.report.id in answer.undelivered]
            pool.news.extendleft(replace(news, urgent=False) for news in reversed(undelivered))
            but = tuple(news.number for news in undelivered)
            pool.send(protocol.NewsDelivered(gathered[-1].number, but))

    def _is_good_for_all_that_runs(self, proven: Sequence[str] | None) -> bool:
        """Threads can't stand still one by one: while the lease is renewed in some queues only, the
        pool runs nothing of others, or its lease ends with theirs.
        """
        queues = self._options.queues
        with self._starting:  # so that no pool begins with queues that are not good any more
            self._proven = tuple(each for each in queues if proven is None or each in proven)
            pool = self._pool
        if pool is None:
            return True
        pool.confine(self._proven)
        return proven is None or pool.queues <= set(proven)

    # Small things

    def _send(self, message: protocol.Message) -> None:
        if self._pool is not None:
            self._pool.send(message)

    def _try(self, step: Callable[[], object], queue: str | None = None) -> bool:
        """Do what needs the store; if that fails, leave it for later."""
        try:
            return super()._try(step, queue)
        except _TaskChanged:
            return False


class _TaskChanged(Exception):
    """A task changed between look and deed: look again."""


def _as_many_as_fit(news: list[protocol.News]) -> list[protocol.News]:
    """Return the first of them, for one beat; one in any case."""
    room = BEAT_LIMIT_BYTES
    for number, each in enumerate(news):
        room -= weight(each.report)
        if room < 0 and number:
            return news[:number]
    return news


def _make_lost(task: Task, why: str, ago: float) -> list[Change]:
    """Make the changes for one that was lost: it had begun, though the store may not know; nothing
    of it is left.
    """
    if task.cancel_wanted:
        return [decide(task, Stop(), ago)]
    return _make_ended(task, WorkerLost(why), ago)


def _make_ended(task: Task, happening: Happening, ago: float) -> list[Change]:
    """Make the changes that end what had begun, though the store may not know that either."""
    if task.state == "started":
        return [decide(task, happening, ago)]
    started = replace(task, state="started")
    return [decide(task, Start(None), ago), decide(started, happening, ago)]


def _signal_name(number: int) -> str:
    known = number in signal.valid_signals()
    return signal.Signals(number).name if known else f"signal {number}"
