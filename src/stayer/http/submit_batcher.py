"""Submits that share a round trip: those that come while one is under way go together in the next.

Alone, each would wait for its own commit; so ten at once cost little more than one, and one alone
waits for nobody. Where many came together last time, the next ones are given a moment to do so
again: who has just been answered comes back sooner than a commit is made, and without that moment
the crowd falls into two halves that take turns, at twice the price.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from stayer.core import ids
from stayer.core.errors import StoreError
from stayer.core.model import NewTask, Submitted
from stayer.http.problem import Problem
from stayer.store import Store

BATCH_TASKS = 1000
"""How many tasks go to the store at once."""
MOST_WAITING_TASKS = 20_000
"""How many may wait for it; more are turned away."""
GATHER_S = 0.001
"""Who comes back is waited for as long as somebody has come within this time, in seconds."""
MOST_GATHERS = 2
"""How many of these in a row at most."""

_Call = Callable[[Callable[[Sequence[NewTask]], list[Submitted]], Sequence[NewTask]],
                 Awaitable[list[Submitted]]]  # fmt: skip
_Waiting = tuple[Sequence[NewTask], asyncio.Future[list[Submitted]]]


class Submitter:
    """Used from the loop of one server."""

    def __init__(self, store: Store, call: _Call) -> None:
        """`call` runs something in a thread."""
        self._store = store
        self._call = call
        self._waiting: deque[_Waiting] = deque()
        self._tasks = 0
        self._working: asyncio.Task[None] | None = None
        self._crowd = 1
        """How many came together last time."""
        self._ids: list[str] = []
        self._moment: asyncio.Future[None] | None = None

    def draw_id(self) -> str:
        """Draw a task id. In a crowd, neighbours share their beginning, as in one batch."""
        if not self._ids:
            self._ids = ids.generate_many(min(self._crowd, BATCH_TASKS))
        return self._ids.pop()

    async def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Submit tasks, together with those of others; answers as `Store.submit` does."""
        if self._tasks + len(tasks) > MOST_WAITING_TASKS:
            raise Problem("busy", "many submit at once: try again", {"retry-after": "1"})
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Submitted]] = loop.create_future()
        self._waiting.append((tasks, answer))
        self._tasks += len(tasks)
        if self._working is None:
            self._working = loop.create_task(self._work())
        elif self._moment is not None and len(self._waiting) >= self._crowd:
            _finish(self._moment)
        return await answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                if len(self._waiting) < self._crowd:
                    await self._gather()
                batch = self._next()
                await self._submit_together(batch)
                self._crowd = len(batch) + len(self._waiting)
                self._ids.clear()
        finally:
            self._working = None

    async def _gather(self) -> None:
        """Wait until as many are here as last time, or nobody comes any more."""
        loop = asyncio.get_running_loop()
        for _ in range(MOST_GATHERS):
            seen = len(self._waiting)
            self._moment = loop.create_future()
            timer = loop.call_later(GATHER_S, _finish, self._moment)
            await self._moment
            timer.cancel()
            if not seen < len(self._waiting) < self._crowd:
                break
        self._moment = None

    def _next(self) -> list[_Waiting]:
        """Take all that wait, as far as they fit."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0][0]) <= BATCH_TASKS):
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0])
        self._tasks -= size
        return batch

    async def _submit_together(self, batch: list[_Waiting]) -> None:
        tasks = [task for some, _ in batch for task in some]
        try:
            answers = await self._call(self._store.submit, tasks)
        except StoreError as error:
            for _, answer in batch:
                _fail(answer, error)
            return
        except Exception as error:
            if len(batch) == 1:
                _fail(batch[0][1], error)
                return
            for each in batch:  # what is wrong with one is not the others' fault
                await self._submit_together([each])
            return
        begin = 0
        for some, answer in batch:
            if not answer.done():  # else who asked has gone
                answer.set_result(answers[begin : begin + len(some)])
            begin += len(some)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _fail(answer: asyncio.Future[list[Submitted]], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
