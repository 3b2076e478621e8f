"""The executors of a pool: threads that call functions, and a loop that runs coroutines."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable

from stayer.core.happenings import Happening
from stayer.core.lifecycle import decide
from stayer.core.model import Change, Task
from stayer.worker.threads.call import ThreadApp, call, call_async
from stayer.worker.threads.context import ThreadContext
from stayer.worker.threads.in_flight import InFlightFile

logger = logging.getLogger("stayer.pool")

_SHORT_TASK_S = 0.0001
"""Tasks that take less run one after the other: more threads would only fight over the
GIL, with each other and with the loop that talks to the store."""
_LONG_TASK_S = 0.005
"""One that has taken so long is not short, whatever those before it were."""
_JUDGE_AFTER_TASKS, _REMEASURE_AFTER_TASKS = 5, 50
"""After how many tasks they can be judged to be long, and after how many they are measured
anew. One of them may have been kept waiting by others: the longest is left out."""
_REMEASURE_AFTER_S = 1.0
"""How long all threads are used before it is measured again how long tasks take."""
_SUSPECT_TRIAL_S = 3.0
"""How long a suspect runs without another suspect beside it."""
_STRAY_EXIT_CODE = 70
"""The exit code of a copy of this process: what becomes of a task is not for it to say."""


class Job:
    """An attempt that the pool has: waiting for a hand, running, or ended but not yet told."""

    begun_at: float | None = None
    ended_at: float | None = None
    deadline: float | None = None
    """When it has to have ended, by `moment`; None: that is not known yet, or it has none."""
    outcome: Happening | None = None
    place = 0
    thread: int | None = None
    coroutine: asyncio.Task[None] | None = None
    end: tuple[Task, Change] | None = None
    """What the store is to be told of its end, if the task is still as it was then."""

    def __init__(self, task: Task, context: ThreadContext, is_async: bool, taken_at: float) -> None:
        self.task = task
        self.context = context
        self.is_async = is_async
        self.taken_at = taken_at
        self.key = task.id, task.attempt

    @property
    def is_suspect(self) -> bool:
        """It was running when its process died, and may have been what killed it."""
        return self.task.losses > 0

    def end_with(self, outcome: Happening) -> None:
        """End with this outcome. What follows is decided here, while the pool's loop waits for the
        store.
        """
        task = self.task
        self.end = task, decide(task, outcome)
        if self.ended_at is None:
            self.ended_at = time.monotonic()
        self.outcome = outcome

    def change(self) -> Change:
        """Return what becomes of it."""
        assert self.outcome is not None
        if self.end is not None and self.end[0] is self.task:
            return self.end[1]
        return decide(self.task, self.outcome)

    def stack(self) -> str:
        """Return the stack of its thread."""
        if self.coroutine is not None:
            lines: list[str] = []
            for frame in self.coroutine.get_stack():
                lines += traceback.format_stack(frame, 1)
            return "".join(lines)
        frames = sys._current_frames()
        found = frames.get(self.thread or -1)
        return "" if found is None else "".join(traceback.format_stack(found))


class Executor:
    """Runs up to so many tasks at once. What can't begin yet waits, in the order it came."""

    def __init__(
        self, app: ThreadApp, number: int, begun_file: InFlightFile, on_end: Callable[[Job], None]
    ) -> None:
        self._app = app
        self._process = os.getpid()
        self._number = number
        self._begun_file = begun_file
        self._on_end = on_end
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._trial: Job | None = None
        self._wanted = 1  # how many are to run at once
        self._wide_until = 0.0
        # How many ran alone since it was looked anew, for how long, and the longest of them.
        self._alone = 0
        self._took = self._longest = 0.0
        self._threads = 0
        self._idle = 0
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def load(self) -> int:
        """How many run or wait."""
        return len(self._running) + len(self._waiting)

    @property
    def are_busy(self) -> bool:
        """There is more to do than they could do at once."""
        return len(self._waiting) > self._number

    @property
    def running_jobs(self) -> list[Job]:
        with self._lock:
            return list(self._running)

    def limit(self, number: int) -> None:
        """Run so many at once from now on; what runs goes on. Not more than it was made for."""
        with self._lock:
            self._number = number
            self._wanted = min(self._wanted, number)

    def take(self, tasks: Iterable[Job]) -> None:
        """These are next."""
        with self._lock:
            self._waiting.extend(tasks)

    def begin(self) -> None:
        """Let one begin, or all that can if tasks are not as short as that."""
        if self._waiting:
            self._fill(self._choose_width())

    def fill(self) -> None:
        """Let all begin that can: nobody else has anything to do."""
        if self._waiting:
            self._fill(self._number)

    def _fill(self, number: int) -> None:
        with self._lock:
            self._wanted = number
            startable = self._pick(number)
        for job in startable:
            self._launch(job)

    def _choose_width(self) -> int:
        """Return how many are to run at once, by how long tasks took that ran alone."""
        now = time.monotonic()
        with self._lock:
            if now >= self._wide_until:
                oldest = min((job.begun_at or now for job in self._running), default=now)
                usual = (self._took - self._longest) / max(1, self._alone - 1)
                if now - oldest > _LONG_TASK_S or (
                    self._alone >= _JUDGE_AFTER_TASKS and usual > _SHORT_TASK_S
                ):
                    self._wide_until = now + _REMEASURE_AFTER_S
            if self._alone >= _REMEASURE_AFTER_TASKS or now < self._wide_until:
                self._alone, self._took, self._longest = 0, 0.0, 0.0
        return self._number if now < self._wide_until else 1

    def let_go(self, wanted: Callable[[Job], bool]) -> list[Job]:
        """Take back those of the waiting that are wanted back; they will not begin."""
        with self._lock:
            given = {job: None for job in self._waiting if wanted(job)}
            if given:
                self._waiting = deque(job for job in self._waiting if job not in given)
        return list(given)

    def _pick(self, number: int) -> list[Job]:
        """Return who begins now, if so many are to run. Under the lock."""
        picked: list[Job] = []
        later: list[Job] = []
        while self._waiting and len(self._running) < number:
            job = self._waiting.popleft()
            if job.is_suspect and self._on_trial():
                later.append(job)
                continue
            job.place = self._begun_file.enter(*job.key)
            job.begun_at = time.monotonic()
            if job.is_suspect:
                self._trial = job
            self._running.add(job)
            picked.append(job)
        self._waiting.extendleft(reversed(later))
        return picked

    def _on_trial(self) -> bool:
        """Return whether one suspect is at it, and has not lived long enough to be trusted. If two
        could run together, what kills the process would have the other one set aside along with it.
        """
        trial = self._trial
        if trial is None or trial not in self._running:
            return False
        return time.monotonic() - (trial.begun_at or 0.0) < _SUSPECT_TRIAL_S

    def _after(self, job: Job) -> Job | None:
        """Start another in place of one that has ended; return it if this thread should run it."""
        self._on_end(job)
        with self._lock:
            following = self._succeed(job)
            mine = not job.is_async and following is not None and not following.is_async
            if not job.is_async and not mine:
                self._idle += 1
        if mine or following is None:
            return following
        self._launch(following)
        return None

    def _succeed(self, job: Job) -> Job | None:
        """Return who begins in its place, if anybody does. Under the lock."""
        running, now = self._running, time.monotonic()
        number = len(running)
        if number == 1:  # none fought with it over the GIL
            took = now - (job.begun_at or now)
            self._alone += 1
            self._took += took
            self._longest = max(self._longest, took)
        if (
            not self._waiting
            or self._waiting[0].is_suspect
            or job not in running
            or number > self._wanted
        ):
            running.discard(job)
            self._begun_file.leave(job.place)
            return next(iter(self._pick(min(number, self._wanted))), None)
        following = self._waiting.popleft()
        running.remove(job)
        running.add(following)
        following.place = job.place
        self._begun_file.replace(job.place, *following.key)
        following.begun_at = now
        return following

    def _launch(self, job: Job) -> None:
        if job.is_async:
            loop = self._event_loop()
            loop.call_soon_threadsafe(self._begin_coroutine, loop, job)
            return
        with self._lock:
            if self._idle:
                self._idle -= 1
                fresh = False
            else:
                self._threads += 1
                fresh = True
        if fresh:
            name = f"task {self._threads}"
            try:
                threading.Thread(target=self._work, args=(job,), name=name, daemon=True).start()
            except RuntimeError:  # no more threads can be had: it waits, and is handed back
                with self._lock:
                    self._threads -= 1
                    self._running.discard(job)
                    self._begun_file.leave(job.place)
                    job.begun_at = None
                    self._waiting.appendleft(job)
        else:
            self._jobs.put(job)

    def _work(self, job: Job | None) -> None:
        me = threading.get_ident()
        while True:
            while job is not None:
                job.thread = me
                outcome = call(self._app, job.context)
                self._end_if_stray()
                job.end_with(outcome)
                job = self._after(job)
            job = self._jobs.get()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run_for_good, args=(self._loop,), name="loop", daemon=True
                ).start()
            return self._loop

    def _begin_coroutine(self, loop: asyncio.AbstractEventLoop, job: Job) -> None:
        own = job.coroutine = loop.create_task(self._await(job))
        job.context.abort = lambda: loop.call_soon_threadsafe(own.cancel)
        if job.context.why not in (None, "interrupt"):  # it was asked just now
            loop.call_soon(own.cancel)  # after its first step, else it would never begin to end

    async def _await(self, job: Job) -> None:
        outcome = await call_async(self._app, job.context)
        self._end_if_stray()
        job.ended_at, job.outcome = time.monotonic(), outcome
        self._after(job)

    def _end_if_stray(self) -> None:
        """End this process if a task forked it: it may come back from the task like its parent."""
        if os.getpid() != self._process:
            os._exit(_STRAY_EXIT_CODE)


def _run_for_good(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop. What one coroutine does to it must not be the end of all others."""
    while True:
        try:
            loop.run_forever()
            logger.warning("a task stopped the event loop: it goes on")
        except BaseException as error:  # `sys.exit` in a task or callback of a coroutine's own
            logger.warning("%s came out of the event loop: it goes on", type(error).__name__)
