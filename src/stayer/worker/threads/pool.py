"""The loop of a pool: what has ended and what can be taken go to the store in one round trip.

Only this thread talks to the store about tasks; the executors give it what has ended and wake it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from stayer.core import patterns
from stayer.core.errors import LeaseLost, StoreError
from stayer.core.happenings import Happening, Interrupt, Stop
from stayer.core.model import Report, Task
from stayer.core.refused_tasks import Refusals
from stayer.core.worker_model import Orders
from stayer.keeper.kernel import moment, slept
from stayer.service.degraded.partial import held_by
from stayer.service.upkeep import due_work
from stayer.store import Store, Waiter
from stayer.worker.threads.call import ThreadApp
from stayer.worker.threads.commit_outcomes import OutcomeCommitter
from stayer.worker.threads.context import ThreadContext
from stayer.worker.threads.executor import Executor, Job
from stayer.worker.threads.in_flight import InFlightFile
from stayer.worker.threads.protocol import (
    Ask,
    Change,
    Confine,
    ConfineDone,
    Finish,
    Link,
    Message,
    News,
    NewsDelivered,
    Setup,
)
from stayer.worker.threads.rules import handles_of, refusal

logger = logging.getLogger("stayer.pool")

_AHEAD_S = 0.1
"""As many tasks as ended in this time are taken beyond those that run at once."""
_TURNS_AHEAD = 2
"""How many turns' worth at most: threads have something to do while the store is at the next."""
_GATHER_ENDS_S = 0.002
"""How long the end of a short task waits for those of others, if the executor has more to do."""
_QUEUED_LIMIT_S = 1.0
"""How long a task waits here for a thread before it is handed back, and how long it runs before the
store is told that it has started."""
_LONGEST_SLEEP_S = 60.0
_SHORTEST_SUSPEND_S = 1.0
_STORE_BACKOFF_S = (0.05, 5.0)


class Pool:
    """Takes tasks, has them run and settles them, until it is told to finish."""

    def __init__(
        self, setup: Setup, store: Store, app: ThreadApp, begun_file: InFlightFile, link: Link
    ) -> None:
        self._setup = setup
        self._queues = setup.confined
        self._confinement: int | None = None
        self._store = store
        self._app = app
        self._link = link
        routes: tuple[str, ...] = getattr(app, "routes", ())
        self._handles = handles_of((*map(patterns.literal, app.names), *routes))
        self._refusals = Refusals()
        self._hands = Executor(app, setup.threads, begun_file, self._on_end)
        self._held: dict[tuple[str, int], Job] = {}
        self._arrived: Sequence[Task] = ()
        """Given to us by the last turn, and not yet looked at: there is time for that while the
        store is at the next one."""
        self._ended: deque[Job] = deque()
        self._messages: deque[Message] = deque()
        self._settling = OutcomeCommitter(store, setup.worker, os.getpid())
        self._unsent_ends: dict[int, Job] = {}
        self._send_lock = threading.Lock()
        self._news_number = self._delivered = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._waiter: Waiter | None = None
        self._waking = threading.Lock()
        self._asleep = self._has_slept = False
        self._has_changed = True
        self._unsure = True
        self._slept = slept()
        self._next_due = 0.0
        self._next_look = 0.0
        self._next_reckoning = 0.0
        self._pause = _STORE_BACKOFF_S[0]
        self._turns = 0
        self._finishing = False

    # For other threads

    def receive(self, message: Message) -> None:
        """Take a message from the worker."""
        self._messages.append(message)
        self._wake()

    def _on_end(self, job: Job) -> None:
        self._ended.append(job)
        self._wake()

    def _wake(self) -> None:
        if self._asleep:
            with self._waking:  # nobody rings what is closed
                if self._waiter is not None:
                    self._waiter.ring()

    # The loop

    def run(self) -> None:
        """Run until it is told to finish and has nothing more; raises LeaseLost."""
        while not self._is_finished():
            try:
                self._once()
                self._pause = _STORE_BACKOFF_S[0]
            except StoreError as error:
                logger.warning("asking the store again in %.1f s: %s", self._pause, error)
                self._unsure = True
                self._take_arrived()
                time.sleep(self._pause)
                self._pause = min(self._pause * 2, _STORE_BACKOFF_S[1], self._setup.lease / 8)
            except LeaseLost:
                raise
            except Exception:
                logger.exception("something went wrong, going on")
                self._unsure = True
                time.sleep(_STORE_BACKOFF_S[1])

    def _is_finished(self) -> bool:
        return self._finishing and not self._held and not self._arrived

    def _once(self) -> None:
        self._hands.begin()
        self._open_waiter()
        self._handle_messages()
        self._report_confinement()
        self._collect_ended()
        self._reconcile_if_unsure()
        room = self._room()
        if self._settling.has_uncommitted or (room and self._has_changed):
            if self._hands.are_busy and self._settling.number_of_ends < self._store.a_turn // 4:
                time.sleep(_GATHER_ENDS_S)
                self._collect_ended()
            # Before all else: somebody may be waiting for it.
            self._turn(min(room, self._store.a_turn))
            self._check_jobs()
        else:
            self._take_arrived()
            self._check_jobs()
            self._sleep()

    def _handle_messages(self) -> None:
        if self._messages:
            self._take_arrived()  # they may be about these
        while self._messages:
            match self._messages.popleft():
                case Ask(orders=orders):
                    self._obey(orders)
                case NewsDelivered(number=number, but=but):
                    self._delivered = max(self._delivered, number)
                    for number_sent in [
                        key for key in self._unsent_ends if key <= number and key not in but
                    ]:
                        self._settling.add(self._unsent_ends.pop(number_sent))
                case Finish(stop=stop):
                    self._finish(stop)
                case Change(queues=queues, threads=threads):
                    self._change(queues, threads)
                case Confine(number=number, queues=queues):
                    self._confinement, self._queues = number, queues
                    self._has_changed = True
                    self._hand_back(self._hands.let_go(self._is_elsewhere), "its queue is away")
                case _:
                    pass

    def _collect_ended(self) -> None:
        """Collect those that ended. The last of log, progress and checkpoint come before the end,
        where there are any.
        """
        held, delivered = self._held, self._delivered
        while self._ended:
            job = self._ended.popleft()
            if held.get(job.key) is not job:
                continue
            has_news = job.context.has_news or job.context.last_news > delivered
            if not has_news or not self._send_last_news(job):
                self._settling.add(job)

    def _send_last_news(self, job: Job) -> bool:
        """Send the last news of a job; return whether its end has to wait until they
        have arrived.
        """
        try:
            report = job.context.gather() or Report(id=job.task.id, attempt=job.task.attempt)
            self._send_news(job.context, report, urgent=True)
        except Exception:  # news that can't be sent must not keep the end from being told
            logger.exception("the last news of task %s can't be told", job.task.id)
            return False
        self._unsent_ends[job.context.last_news] = job
        return True

    def _check_jobs(self) -> None:
        """Look once a while for news, tasks that have run for a while, tasks that have waited too
        long.
        """
        self._check_clock()
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _QUEUED_LIMIT_S / 2
        for job in self._hands.running_jobs:
            self._look_at(job, now)
        waited = self._hands.let_go(
            lambda job: not job.is_suspect and now - job.taken_at > _QUEUED_LIMIT_S
        )
        self._hand_back(waited, "no thread became free for it")
        if not self._has_slept:
            self._promote()  # it can't have heard of something that is due sooner
        self._has_slept = False

    def _look_at(self, job: Job, now: float) -> None:
        if (report := job.context.gather()) is not None:
            self._send_news(job.context, report)
        ran = now - (job.begun_at or now)
        if ran > _QUEUED_LIMIT_S and job.task.state == "reserved":
            self._settling.add_start(job)
        limit = job.task.policy.time_limit or self._setup.time_limit
        if limit is not None and ran > limit and job.context.why is None:
            job.context.ask_to_stop("timeout")
        if job.task.finish_before is not None and job.context.why is None:
            if job.deadline is None:
                job.deadline = moment() + job.task.finish_before - self._store.now()
            if moment() >= job.deadline:
                job.context.ask_to_stop("deadline")

    def _reconcile_if_unsure(self) -> None:
        """Compare with the store: at first, after an answer that got lost, when the machine has
        slept, and once a lease.
        """
        now, asleep = time.monotonic(), slept()
        if asleep - self._slept > _SHORTEST_SUSPEND_S:
            self._slept, self._unsure = asleep, True
        if not self._unsure and now < self._next_reckoning:
            return
        self._take_arrived()
        queues = {*self._setup.queues, *(job.task.queue for job in self._held.values())}
        found = held_by(self._store, self._setup.worker, queues)
        theirs = {(task.id, task.attempt): task for task in found.tasks}
        self._take(task for key, task in theirs.items() if key not in self._held)
        for key, job in list(self._held.items()):
            if key not in theirs and found.covers(job.task.queue):
                self._give_up(job)
        self._unsure = False
        self._next_reckoning = now + self._setup.lease

    def _room(self) -> int:
        """Return how many more to take: what can run at once, and what is done in a moment."""
        if self._finishing or not self._queues:
            return 0
        now = time.monotonic()
        while self._recent and now - self._recent[0][0] > _AHEAD_S:
            self._recent.popleft()
        most = _TURNS_AHEAD * self._store.a_turn
        ahead = min(most, sum(number for _, number in self._recent))
        return max(0, self._setup.threads + ahead - self._hands.load - len(self._arrived))

    def _turn(self, room: int) -> None:
        queues = self._queues or self._setup.queues
        if self._setup.evenly:
            self._turns = (self._turns + 1) % len(queues)
            queues = queues[self._turns :] + queues[: self._turns]
        settled, tasks = self._settling.turn(queues, room, self._handles, self._take_arrived)
        for job in settled:
            self._held.pop(job.key, None)
        # What was handed back for want of a thread must not make room for itself.
        ran = sum(job.begun_at is not None for job in settled)
        self._recent.append((time.monotonic(), ran))
        self._has_changed = len(tasks) == room
        self._take_arrived()  # those before, if there was no time for it
        self._arrived = tasks
        if not (
            self._has_changed and len(tasks) > self._setup.threads
        ):  # nobody has to wait for it
            self._take_arrived()

    def _sleep(self) -> None:
        """Sleep until there may be work, something has ended, or it is time to look again."""
        self._hands.fill()
        if self._check_clock():
            return
        until = self._next_due
        if self._held:
            until = min(until, self._next_look)
        self._asleep = self._has_slept = True
        try:
            # What came before it was seen to be asleep did not wake it.
            if self._ended or self._messages or self._is_finished():
                return
            if self._open_waiter().wait(max(0.0, until - time.monotonic())):
                self._has_changed = True
                self._next_due = 0.0  # it may be something that is due later
        finally:
            self._asleep = False

    # What happens to tasks

    def _take_arrived(self) -> None:
        tasks, self._arrived = self._arrived, ()
        if tasks:
            self._take(tasks)
            self._hands.begin()

    def _take(self, tasks: Iterable[Task]) -> None:
        fresh: list[Job] = []
        now = time.monotonic()
        for task in tasks:
            context = ThreadContext(task, self._store, self._send_news)
            job = Job(task, context, self._app.is_async(task.name or ""), now)
            self._held[job.key] = job
            if task.cancel_wanted:
                self._settle(job, Stop())
            elif task.state == "started":
                self._settle(job, Interrupt("not found on its node"))
            elif why := refusal(task, self._handles, self._setup.queues):
                if self._refusals.is_new(task):
                    logger.warning("task %s is refused: %s", task.id, why)
                self._settle(job, self._refusals.snooze(task, why))
            elif self._is_elsewhere(job):
                self._settle(job, Interrupt("its queue is away"))
            else:
                fresh.append(job)
        self._hands.take(fresh)

    def _is_elsewhere(self, job: Job) -> bool:
        """Return whether it is of a queue in which nobody answers for our lease."""
        return job.task.queue not in self._queues

    def _runs_something_elsewhere(self) -> bool:
        running = self._hands.running_jobs
        return any(self._is_elsewhere(job) for job in running if job.outcome is None)

    def _report_confinement(self) -> None:
        if self._confinement is None or self._runs_something_elsewhere():
            return
        with suppress(OSError):  # the worker is gone: so will be this process
            self._link.send(ConfineDone(self._confinement))
        self._confinement = None

    def _settle(self, job: Job, happening: Happening) -> None:
        """Settle one that ends without having begun."""
        job.outcome = happening
        self._settling.add(job)

    def _hand_back(self, jobs: Iterable[Job], note: str) -> None:
        for job in jobs:
            self._settle(job, Interrupt(note))

    def _give_up(self, job: Job) -> None:
        """Give up one that the store says is not ours any more."""
        if job.outcome is not None:
            return  # telling it will show
        del self._held[job.key]
        if not self._hands.let_go(lambda other: other is job):
            logger.warning("task %s is no longer ours: it is asked to stop", job.task.id)
            job.context.ask_to_stop("lost")

    def _obey(self, orders: Orders) -> None:
        job = self._held.get((orders.id, orders.attempt))
        for order in orders.orders if job is not None else ():
            assert job is not None
            match order.verb:
                case "cancel":
                    if self._hands.let_go(lambda other: other is job):
                        self._settle(job, Stop())
                    else:
                        job.context.ask_to_stop("cancel")
                case "stack":
                    self._answer(job, job.stack())
                case verb:
                    self._answer(job, f"stayer: {verb}: not possible, it runs in a thread\n")

    def _answer(self, job: Job, text: str) -> None:
        """Write the answer to its log, at once: somebody waits for it."""
        job.context.write_log(text)
        if (report := job.context.gather()) is not None:
            self._send_news(job.context, report, urgent=True)

    def _finish(self, stop: bool) -> None:
        self._finishing = True
        self._hand_back(self._hands.let_go(lambda job: True), "its worker stopped")
        for job in self._hands.running_jobs if stop else ():
            job.context.ask_to_stop("interrupt")

    def _change(self, queues: tuple[str, ...], threads: int) -> None:
        with self._waking:
            if queues != self._setup.queues and self._waiter is not None:
                self._waiter.close()
                self._waiter = None
        self._setup = replace(self._setup, queues=queues, threads=threads)
        self._open_waiter()  # before the next reserve
        self._hands.limit(threads)
        self._has_changed = True

    # Small things

    def _open_waiter(self) -> Waiter:
        """Made before the first reserve, so that nothing falls between."""
        if self._waiter is None:
            self._waiter = self._store.waiter(None, self._setup.queues)
        return self._waiter

    def _check_clock(self) -> bool:
        """Return whether time has brought something that is to be looked for: then look at it again
        afterwards, for a rate may allow more later.
        """
        if time.monotonic() < self._next_due:
            return False
        time_came = self._next_due > 0
        self._promote()
        if time_came:
            self._has_changed = True
            self._next_due = 0.0
        return time_came

    def _promote(self) -> None:
        """See to what is due: the waiter hears of it as of any other."""
        following = due_work.elapse(self._store)
        ahead = _LONGEST_SLEEP_S if following is None else following - self._store.now()
        self._next_due = time.monotonic() + min(max(0.0, ahead), _LONGEST_SLEEP_S)

    def _send_news(self, context: ThreadContext, report: Report, urgent: bool = False) -> None:
        """News for the next beat, or for one at once; from any thread."""
        with self._send_lock, suppress(OSError):  # the worker is gone: so will be this process
            self._news_number += 1
            context.last_news = self._news_number
            self._link.send(News(report, self._news_number, urgent))
