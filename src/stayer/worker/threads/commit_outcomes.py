"""Bringing what became of a pool's tasks into the store, together with the next reserve."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from msgspec.structs import replace

from stayer.core.attempt_summary import account
from stayer.core.errors import BadInput, StoreError
from stayer.core.happenings import Fail, Start
from stayer.core.lifecycle import date_back, decide
from stayer.core.model import RUNNING, Change, Fault, Task
from stayer.core.worker_model import Handles
from stayer.service import tracing
from stayer.service.lease.repeated_ends import is_committed
from stayer.store import Meanwhile, Store
from stayer.worker.threads.executor import Job

logger = logging.getLogger("stayer.pool")


_REFUSED_RETRY_S = 1.0
"""When to commit again what was refused because its part of the store was away."""
_LOGGED_FAILURES, _LOGGED_FAILURES_PERIOD_S = 10, 10.0
"""How many failures are logged one by one in which time: thousands may fail in a second."""
_UNREMARKABLE_S = 1.0
"""What ran for less is committed without the times of its start and end."""


class FailureLog:
    """Tells the log of tasks that failed; where there are many, how many."""

    def __init__(self) -> None:
        self._logged = self._suppressed = 0
        self._since = 0.0

    def log(self, text: str) -> None:
        """Log one more failure, or count it if there were many."""
        now = time.monotonic()
        if now - self._since >= _LOGGED_FAILURES_PERIOD_S:
            if self._suppressed:
                logger.warning("%d more tasks failed in the meantime", self._suppressed)
            self._logged, self._suppressed, self._since = 0, 0, now
        if self._logged < _LOGGED_FAILURES:
            self._logged += 1
            logger.warning("%s", text)
        else:
            self._suppressed += 1


class OutcomeCommitter:
    """What waits to be told to the store; it waits until the store has answered."""

    def __init__(self, store: Store, worker: str, pid: int) -> None:
        self._store = store
        self._worker = worker
        self._start = Start(pid)
        self._started: dict[Job, None] = {}
        self._ended: dict[Job, None] = {}
        self._away: list[Job] = []
        self._away_until = 0.0
        self._failures = FailureLog()

    @property
    def has_uncommitted(self) -> bool:
        """There is something to tell."""
        if self._away and time.monotonic() >= self._away_until:
            for job in self._away:
                (self._started if job.outcome is None else self._ended)[job] = None
            self._away = []
        return bool(self._ended or self._started)

    @property
    def number_of_ends(self) -> int:
        """How many ends there are to tell."""
        return len(self._ended)

    def add_start(self, job: Job) -> None:
        """Add one that has been running for a while."""
        self._started[job] = None

    def add(self, job: Job) -> None:
        """Add one that has an outcome."""
        self._started.pop(job, None)
        self._ended[job] = None

    def turn(
        self, queues: Sequence[str], limit: int, handles: Handles, meanwhile: Meanwhile
    ) -> tuple[list[Job], Sequence[Task]]:
        """Tell it and take more: those about which nothing is left to say, and the new ones."""
        now, ended = time.monotonic(), list(self._ended)
        ends = {job: _end(job, now) for job in ended if _is_of_interest(job, now)}
        started = [*self._started, *(job for job in ends if _is_start_uncommitted(job))]
        changes = [decide(job.task, self._start, now - (job.begun_at or now)) for job in started]
        changes += [ends.get(job) or job.change() for job in ended]
        try:
            answers, tasks = self._store.turn(
                self._worker, changes, queues, limit, handles, meanwhile
            )
        except BadInput:
            self._commit_one_by_one(ended)
            return [], []
        self._started.clear()
        for job in ended:  # others may have come meanwhile
            del self._ended[job]
        refused: dict[Job, None] = {}
        for job, done in zip(started, answers, strict=False):
            if done:
                job.task = replace(job.task, state="started")
            else:
                refused[job] = None
        settled: list[Job] = []
        is_traced = tracing.is_active()
        for job, done in zip(ended, answers[len(started) :], strict=True):
            if not done:
                refused[job] = None
                continue
            settled.append(job)
            self._log_outcome(job, ends.get(job), is_traced)
        for queue in dict.fromkeys(job.task.queue for job in refused):
            settled += self._look_again([job for job in refused if job.task.queue == queue])
        return settled, tasks

    def _log_outcome(self, job: Job, end: Change | None, is_traced: bool) -> None:
        """Whoever traces tasks, and whoever reads the log."""
        if is_traced:
            tracing.attempt(job.task, end or job.change())
        if isinstance(job.outcome, Fail):
            self._failures.log(account(job.task, job.change(), None))

    def _look_again(self, refused: list[Job]) -> list[Job]:
        """Look again at those that were refused: an order came in between, or it was committed
        before, or it is no longer ours. Return those that are over.
        """
        over: list[Job] = []
        try:
            current = self._store.get([job.task.id for job in refused])
            committed = self._find_committed(refused, current)
        except StoreError as error:
            # Their queue may be away, while others are not.
            logger.warning("%s; telling again what was refused", error)
            self._away += refused
            self._away_until = time.monotonic() + _REFUSED_RETRY_S
            return []
        for job, task in zip(refused, current, strict=True):
            if task is not None and _is_held(job, task):
                job.task = task
                if job.outcome is not None:
                    self._ended[job] = None
            elif job.outcome is not None:
                over.append(job)
                if job in committed:
                    self._log_outcome(job, None, tracing.is_active())
                else:
                    logger.warning("the outcome of task %s is refused: it is not ours", job.task.id)
        return over

    def _find_committed(self, refused: Sequence[Job], current: Sequence[Task | None]) -> set[Job]:
        """Return those whose ends the store has. A part of it may have taken them, and its replicas
        may not: so they are told once more, which is refused, but confirmed.
        """
        committed = {
            job
            for job, task in zip(refused, current, strict=True)
            if job.outcome is not None
            and not (task is not None and _is_held(job, task))
            and is_committed(self._store, job.change())
        }
        if committed:
            self._store.commit([job.change() for job in committed])
        return committed

    def _commit_one_by_one(self, ended: list[Job]) -> None:
        """Commit them one by one, since the store can't keep one of them, and say of
        that one so.
        """
        for job in ended:
            try:
                self._store.commit([job.change()])
            except BadInput as error:
                logger.warning("the outcome of task %s can't be stored: %s", job.task.id, error)
                job.end_with(Fail(Fault("NotStorable", "what came out of it can't be stored")))


def _is_held(job: Job, task: Task) -> bool:
    """Return whether it runs as the store sees it, in the same pool."""
    mine = task.worker, task.attempt
    return mine == (job.task.worker, job.task.attempt) and task.state in RUNNING


def _is_of_interest(job: Job, now: float) -> bool:
    """Return whether it did not come and go in a moment."""
    return job.begun_at is not None and now - job.begun_at >= _UNREMARKABLE_S


def _is_start_uncommitted(job: Job) -> bool:
    """Return whether it ran for a while of which the store, which was away, has not heard."""
    ran = (job.ended_at or 0.0) - (job.begun_at or 0.0)
    return job.task.state == "reserved" and ran >= _UNREMARKABLE_S


def _end(job: Job, now: float) -> Change:
    """Return what becomes of it, and how long ago it ended if the store could not be told at once:
    in tenths of a second, so that many may be alike.
    """
    assert job.outcome is not None
    ago = now - (job.ended_at or now)
    ago = round(ago, 1) if ago >= _UNREMARKABLE_S else 0.0
    if _is_start_uncommitted(job):
        return decide(replace(job.task, state="started"), job.outcome, ago)
    return date_back(job.change(), ago)
