"""Events of the store for any number of clients, with one thread that watches.

`/v1/events` streams them (SSE), or answers with the next ones (JSON). Nobody has a buffer: a client
that is behind reads from the shared ring, one that is far behind from the store.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from msgspec import Struct

from stayer.core.errors import StoreError
from stayer.core.model import Event
from stayer.store import Store

logger = logging.getLogger(__name__)

RING_EVENTS = 4096
EVENTS_PER_READ = 500
_WATCH_S = 2.0
"""How long one watch waits: so long may the thread outlive its last listener, in seconds."""
_LINGER_S = 10.0
_STORE_RETRY_S = 1.0
"""Between two attempts at a store that does not answer."""
WATCH_OVERDUE_S = 3.0
"""How much longer than it should one watch may take: then the store is silent, in seconds."""


class _Caller(Protocol):
    def __call__(self, function: Callable[..., Any], /, *arguments: Any) -> Awaitable[Any]: ...


class Closed(Exception):
    """The server ends."""


class Silence(Struct, frozen=True):
    """The store does not answer."""

    since: float
    why: str


class Hub:
    """The newest events, and who waits for more. Used from the loop; one thread fills it."""

    def __init__(self, store: Store, call: _Caller) -> None:
        self._store = store
        self._call = call
        self._ring: list[Event] = []
        self._base = 0
        """All events after this number are in the ring."""
        self._last = 0
        self._arrived = asyncio.Event()
        self._listeners = 0
        self._generation = 0
        self._ready: asyncio.Future[None] | None = None
        self._asked_at: float | None = None
        """When the watch that is under way began, by the monotonic clock."""
        self.silence: Silence | None = None
        """What keeps the store from being watched, while somebody listens."""
        self.count_of_stores = 1
        """Grows when the numbers of events begin anew."""
        self.closed = False

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        """Hear of events; while anybody listens, the store is watched."""
        self._listeners += 1
        try:
            if self._ready is None:
                self._ready = asyncio.ensure_future(self._start())
            await asyncio.shield(self._ready)
            yield
        finally:
            self._listeners -= 1
            if not self._listeners:
                # Who polls comes back soon, and would start a thread each time.
                asyncio.get_running_loop().call_later(_LINGER_S, self._stop_if_unused)

    def _stop_if_unused(self) -> None:
        if not self._listeners:
            self._generation += 1  # its thread notices, and ends
            self._ready = None
            self.silence = None

    @property
    def newest(self) -> int:
        """The number of the newest event, while listening."""
        return self._last

    async def after(self, number: int, timeout: float, ask: _Caller) -> list[Event]:
        """Events after this number, waiting for the first of them; none if the time is over, or the
        store has fallen silent or answers again. Who is far behind asks the store, in turn.
        """
        if self._base <= number >= self._last:
            await self._wait_for_events(timeout)
        if number < self._base:  # also if the ring has moved on meanwhile
            found: list[Event] = await ask(self._store.watch, number, 0.0, EVENTS_PER_READ)
            if found:
                return found
        start = bisect_right(self._ring, number, key=lambda event: event.number)
        return self._ring[start : start + EVENTS_PER_READ]

    async def _wait_for_events(self, timeout: float) -> None:
        """Wait for events, or for the time to be over."""
        if not self.closed:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout)
        if self.closed:
            raise Closed

    def close(self) -> None:
        """End all that wait."""
        self.closed = True
        self._generation += 1
        self._arrived.set()

    async def _start(self) -> None:
        self._generation += 1
        generation = self._generation
        try:
            newest: int = await self._call(self._store.last_event)
        except BaseException:
            self._ready = None
            raise
        if generation != self._generation:
            return  # who asked for it has gone, others may have begun anew
        self._ring, self._base, self._last = [], newest, newest
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._watch, args=(loop, generation, newest), name="watch", daemon=True
        ).start()

    def _watch(self, loop: asyncio.AbstractEventLoop, generation: int, seen: int) -> None:
        def run_in_loop(what: Callable[..., None], *arguments: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._run_if_current, generation, what, *arguments)

        run_in_loop(self._look_at_clock, generation)
        away = False
        while generation == self._generation and not loop.is_closed():
            self._asked_at = time.monotonic()
            try:
                if away:
                    newest = self._store.last_event()
                    if newest < seen:
                        seen = newest
                        run_in_loop(self._restart, newest)
                    run_in_loop(self._take, [])
                events = self._store.watch(seen, _WATCH_S, EVENTS_PER_READ)
            except StoreError as error:
                if not away:
                    logger.warning("the events can't be watched, trying again: %s", error)
                away = True
                run_in_loop(self._fall_silent, str(error))
                self._asked_at = None
                threading.Event().wait(_STORE_RETRY_S)
                continue
            self._asked_at = None
            away = False
            if events:
                seen = events[-1].number
            run_in_loop(self._take, events)

    def _run_if_current(self, generation: int, what: Callable[..., None], *arguments: Any) -> None:
        """Run what a watching thread asks for, unless another one has taken its place."""
        if generation == self._generation:
            what(*arguments)

    def _look_at_clock(self, generation: int) -> None:
        """A store that hangs does not even say that it is away."""
        if generation != self._generation:
            return
        asked_at = self._asked_at
        if (
            asked_at is not None
            and (waited := time.monotonic() - asked_at) > _WATCH_S + WATCH_OVERDUE_S
        ):
            self._fall_silent(f"{self._store.url} has not answered for {waited:.0f} s", waited)
        asyncio.get_running_loop().call_later(1.0, self._look_at_clock, generation)

    def _fall_silent(self, why: str, ago: float = 0.0) -> None:
        if self.silence is None:
            self.silence = Silence(time.time() - ago, why)
            self._wake()

    def _restart(self, newest: int) -> None:
        """A store that was away and has older events now is another one, or has lost some: numbers
        that clients have mean nothing in it.
        """
        self._ring, self._base, self._last = [], newest, newest
        self.count_of_stores += 1
        self._wake()

    def _take(self, events: list[Event]) -> None:
        news = bool(events) or self.silence is not None
        self.silence = None
        if events:
            self._ring += events
            self._last = events[-1].number
        if len(self._ring) > RING_EVENTS:
            dropped = len(self._ring) - RING_EVENTS // 2
            self._base = self._ring[dropped - 1].number
            del self._ring[:dropped]
        if news:
            self._wake()

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()
