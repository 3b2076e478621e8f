"""Waking those who wait over HTTP for tasks or orders, however many they are.

One thread for each queue that somebody waits for listens at the store, as a worker would. Orders
come from the events, which the server watches once for all. What has rung is counted: whoever names
the count that he knew last misses nothing between two requests.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from stayer.core.errors import StoreError
from stayer.http.events import Closed, Hub
from stayer.http.problem import Problem
from stayer.store import Store

logger = logging.getLogger(__name__)

_LINGER_S = 120.0
"""How long a queue is listened to after the last one who waited for it."""
_LOOK_S = 5.0
_RETRY_S = 1.0
"""Between two attempts at a store that does not answer."""
_OWN_DOINGS = ("reserved", "started")
"""What nobody but the worker brings about: it would beat once more for each of them."""
_SERVERS = 4
"""Of how many servers a position tells, at most."""


class Bells:
    """What rings for workers. Used from the loop; threads fill it."""

    def __init__(self, store: Store, hub: Hub) -> None:
        self._store = store
        self._hub = hub
        self._boot = secrets.token_hex(4)
        self._counts: dict[str, int] = {}
        self._ears: dict[str, _Ear] = {}
        self._rung = asyncio.Event()
        self._orders: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_ring: Callable[[], None] = lambda: None
        """Hears that something has stirred in a queue."""
        self.closed = False

    async def listen(self, worker: str | None, queues: Iterable[str]) -> str:
        """Listen for this worker and these queues from now on, and for a while after; return the
        position. Raises StoreError if the store can't be listened to.
        """
        self._loop = asyncio.get_running_loop()
        names = [f"queue {queue}" for queue in queues]
        for name in names:
            ear = self._ears.get(name)
            if ear is None or not ear.hear():
                ear = self._ears[name] = _Ear(self, name, self._store, self._loop)
            await asyncio.shield(ear.ready)
        if worker is not None:
            names.append(f"worker {worker}")
            if self._orders is None or self._orders.done():
                async with self._hub.listen():  # says if the store does not answer
                    self._orders = self._loop.create_task(self._pass_on_orders(self._hub.newest))
        return self._position(names)

    async def wait(self, worker: str | None, queues: Iterable[str], since: str, left: float) -> str:
        """Wait until the position is another one, or the time is over; return it. `listen` was
        called before.
        """
        names = [f"queue {queue}" for queue in queues]
        names += [] if worker is None else [f"worker {worker}"]
        deadline = time.monotonic() + left
        while (now := self._position(names)) == since and not self.closed:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), left)
        return now

    def read_position(self, since: str | None) -> tuple[str | None, list[str]]:
        """Return what this server has said of itself in a position (None: nothing), and what others
        have, newest first: behind a proxy, each request may come to another server.
        """
        own: str | None = None
        others: list[str] = []
        for part in since.split(".") if since else ():
            if part.startswith(f"{self._boot}-"):
                own = part
            else:
                others.append(part)
        return own, others[: _SERVERS - 1]

    def ring_worker(self, worker: str) -> None:
        """Wake a worker, if it waits here; to be called from any thread."""
        self.ring_later(f"worker {worker}")

    def ring_queues(self) -> None:
        """Let all look again who wait for tasks here; to be called from any thread."""
        self.ring_later(*list(self._ears))

    def ring_later(self, *names: str) -> None:
        """Ring in the loop."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._ring, *names)

    def close(self) -> None:
        """Let all who wait go."""
        self.closed = True
        for ear in self._ears.values():
            ear.close()
        if self._orders is not None:
            self._orders.cancel()
        self._rung.set()

    def _position(self, names: Iterable[str]) -> str:
        return f"{self._boot}-{sum(self._counts.setdefault(name, 0) for name in names)}"

    def _ring(self, *names: str) -> None:
        for name in names:
            self._counts[name] = self._counts.get(name, 0) + 1
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def _pass_on_orders(self, position: int) -> None:
        """Ring for the workers of whose tasks something is told."""

        async def ask(function: object, *arguments: object) -> object:
            return await asyncio.to_thread(function, *arguments)  # type: ignore[arg-type]

        while True:
            try:
                async with self._hub.listen():
                    stores = self._hub.count_of_stores
                    # After a pause, all may have missed something.
                    self._ring(*(name for name in self._counts if name.startswith("worker ")))
                    while stores == self._hub.count_of_stores:
                        found = await self._hub.after(position, 60.0, ask)
                        if found:
                            position = found[-1].number
                            names = {
                                f"worker {event.worker}"
                                for event in found
                                if event.worker and event.event not in _OWN_DOINGS
                            }
                            if told := names & self._counts.keys():
                                self._ring(*told)
                    position = self._hub.newest
            except Closed:
                return
            except (StoreError, Problem):
                await asyncio.sleep(_RETRY_S)
                position = self._hub.newest


class _Ear:
    """A thread that listens to one queue."""

    def __init__(
        self, bells: Bells, name: str, store: Store, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._bells = bells
        self._name = name
        self._store = store
        self._loop = loop
        self._used_at = time.monotonic()
        self._closing = False
        self.ready: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=self._listen, name=f"ear of {name}", daemon=True).start()

    def hear(self) -> bool:
        """Note that somebody waits; False if it has ended, or could not begin."""
        self._used_at = time.monotonic()
        failed = self.ready.done() and self.ready.exception() is not None
        return not (self._closing or failed)

    def close(self) -> None:
        """End soon."""
        self._closing = True

    def _listen(self) -> None:
        queue = self._name.removeprefix("queue ")
        try:
            waiter = self._store.waiter(None, (queue,))
        except Exception as error:
            self._closing = True
            self._tell(error)
            return
        self._tell(None)
        # What happened before it was there: for whoever waited for the one before.
        self._bells.ring_later(self._name)
        self._bells.on_ring()
        while not self._closing:
            try:
                if waiter.wait(_LOOK_S):
                    self._bells.ring_later(self._name)
                    self._bells.on_ring()
            except StoreError:
                time.sleep(_RETRY_S)
                self._bells.ring_later(self._name)
            except Exception:
                logger.exception("queue %s can't be listened to now", queue)
                time.sleep(_RETRY_S)
            if time.monotonic() - self._used_at > _LINGER_S:
                self._closing = True
        with suppress(Exception):
            waiter.close()

    def _tell(self, error: Exception | None) -> None:
        def tell() -> None:
            if self.ready.done():
                return
            if error is None:
                self.ready.set_result(None)
            else:
                self.ready.set_exception(error)

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell)
