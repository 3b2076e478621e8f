"""What the routes of one server share: the store and the threads that ask it, events, sessions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar, TypeVarTuple, Unpack

from msgspec import Struct, field

from stayer.config import USUAL_RETENTION
from stayer.core.errors import BadConfig, StoreError, StoreUnreachable
from stayer.core.queue_model import Kept
from stayer.http.audit import Audit
from stayer.http.bells import Bells
from stayer.http.events import Hub
from stayer.http.limits import Bodies, Limits, Requests, Streams
from stayer.http.login_throttle import Failures
from stayer.http.metrics import Metrics
from stayer.http.problem import Problem
from stayer.http.session import Principal, Sessions
from stayer.http.submit_batcher import Submitter
from stayer.http.tokens import Access
from stayer.service import tracing
from stayer.service.lease.failure_detector import Watcher
from stayer.service.upkeep.queue_stats import Sampler
from stayer.service.upkeep.timekeeper import Timekeeper
from stayer.service.upkeep.totals import PAUSE_S, Counter
from stayer.service.work import RemoteWorkers
from stayer.store import Store

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVarTuple("A")

STORE_THREADS = 8
MOST_WAITING_CALLS = 256
"""How many calls may wait for a thread; more are turned away."""
WRITE_LAST_USES_S = 60.0
"""How often it is written down which tokens and sessions were used, in seconds."""
_SAMPLE_PAUSE_S = 0.1
_PROBE_TIMEOUT_S = 2.0
"""How long a store may take to say that it is there, or who may come in, in seconds."""


class Settings(Struct, frozen=True, kw_only=True):
    """What was decided about the server."""

    host: str = "127.0.0.1"
    port: int = 8787
    host_names: tuple[str, ...] = ()
    root_path: str = ""
    trusted_proxies: tuple[str, ...] = ()
    audit_log: str | None = None
    body_limit: int = 16_000_000
    certificate: str | None = None
    private_key: str | None = None
    queue: str = "default"
    """Of tasks that name none."""
    retries: int | None = None
    names_submitters: bool = True
    """Whether tasks say which token submitted them, and from where."""
    retention: dict[Kept, float] = field(default_factory=USUAL_RETENTION.copy)
    limits: Limits = Limits()


class Service:
    """One server's work, for as long as its loop runs."""

    def __init__(
        self, store: Store, access: Access, settings: Settings, connections: int | None = None
    ) -> None:
        """Make room for so many connections (`settings.limits.connections`)."""
        self.store = store
        self.access = access
        self.settings = settings
        self.sessions = Sessions(access)
        self.failures = Failures()
        self.metrics = Metrics()
        self.counter = Counter(store)
        self.hub = Hub(store, self.call)
        self.submitter = Submitter(store, self.call)
        self.bells = Bells(store, self.hub)
        self.remote_workers = RemoteWorkers(store)
        self.timekeeper = Timekeeper(store, settings.retention, self.bells.ring_queues)
        """Begins with the first worker, for those who are at the database see to it themselves; or
        at once, where something may come that nobody else takes."""
        self.bells.on_ring = self.timekeeper.look_again
        self.audit = Audit(settings.audit_log)
        self.streams = Streams(settings.limits, connections or settings.limits.connections)
        self.bodies = Bodies(settings.limits)
        self.requests = Requests(settings.limits, STORE_THREADS // 2)
        self.traced = tracing.is_near()
        """Decided once: it takes longer to find out than to route a request."""
        self._threads = ThreadPoolExecutor(STORE_THREADS, "store")
        self._prober = ThreadPoolExecutor(1, "probe")
        self._doorkeeper = ThreadPoolExecutor(1, "tokens")
        self._next_look: asyncio.Future[None] | None = None
        """A look at the tokens that has not begun yet."""
        self._one_look = asyncio.Lock()
        self._probe: asyncio.Future[float] | None = None
        self._calls = 0
        self._watcher = Watcher(store)
        self._passing: list[asyncio.Task[None]] = []
        self._forgetful = False
        """It was said that last uses can't be written down."""

    def start(self) -> None:
        """Begin what is done in passing."""
        loop = asyncio.get_running_loop()
        steps = (self._sample(), self._count(), self._remember(), self._look_at_tokens())
        self._passing = [loop.create_task(each) for each in steps]
        self._watcher.start()
        if self.store.has_incoming:
            self.timekeeper.start()

    async def _sample(self) -> None:
        """Count what the queues did, unless a worker has."""
        sampler = Sampler(self.store)
        while True:
            await asyncio.sleep(max(_SAMPLE_PAUSE_S, sampler.remaining_s))
            try:
                await self.call(sampler.look)
            except (StoreError, Problem) as error:
                logger.warning("what the queues did is counted later: %s", error)

    async def _count(self) -> None:
        """Count events for metrics, so that whoever asks for these finds little left to count."""
        while True:
            try:
                await self.call(self.counter.count)
            except (StoreError, Problem) as error:
                logger.debug("what happened is counted later: %s", error)  # others say so
            await asyncio.sleep(PAUSE_S)

    async def _remember(self) -> None:
        """Write down which tokens and sessions were used."""
        while True:
            await asyncio.sleep(WRITE_LAST_USES_S)
            await asyncio.wrap_future(self._doorkeeper.submit(self._write_uses))

    def _write_uses(self) -> None:
        try:
            self.access.write_uses()
            self._forgetful = False
        except (BadConfig, StoreError) as error:
            if not self._forgetful:
                logger.warning("when tokens were last used is not written down: %s", error)
            self._forgetful = True

    async def _look_at_tokens(self) -> None:
        """Notice tokens and sessions that were ended at another server. While the store is away
        those that are known go on: nothing can be done with them but by the store.
        """
        while self.access.look_every_s is not None:
            await asyncio.sleep(self.access.look_every_s)
            try:
                await asyncio.wrap_future(self._doorkeeper.submit(self.access.look))
            except (BadConfig, StoreError) as error:
                logger.debug("who may come in is looked at later: %s", error)  # others say so

    async def look_again_at_tokens(self) -> None:
        """Look whether somebody who is not known has become known just now, at another server or
        by `stayer token`. Raises StoreError if that can't be found out. However many are not known,
        one look at a time serves all of them that came before it.
        """
        if self._next_look is None:
            self._next_look = asyncio.ensure_future(self._look_for_all())
            self._next_look.add_done_callback(lambda look: look.cancelled() or look.exception())
        try:
            await asyncio.wait_for(asyncio.shield(self._next_look), _PROBE_TIMEOUT_S)
        except TimeoutError:
            raise StoreUnreachable(
                f"{self.store.url} has not said within {_PROBE_TIMEOUT_S:.0f}s who may come in"
            ) from None

    async def _look_for_all(self) -> None:
        async with self._one_look:
            self._next_look = None  # who comes from now on needs another one
            await asyncio.wrap_future(self._doorkeeper.submit(self.access.refresh))

    async def call(self, function: Callable[[Unpack[A]], T], *arguments: *A) -> T:
        """Run something that asks the store, in a thread."""
        if self._calls >= STORE_THREADS + MOST_WAITING_CALLS:
            raise Problem(
                "busy", "the store is slow, or many ask at once: try again", {"retry-after": "1"}
            )
        self._calls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, function, *arguments
            )
        finally:
            self._calls -= 1

    async def ask(
        self, who: Principal | str, function: Callable[[Unpack[A]], T], *arguments: *A
    ) -> T:
        """Run something that asks the store for somebody, or for an account that is nobody's in
        particular. Each has a part of the threads: others go on, however long what is asked for
        takes.
        """
        async with self.requests.turn(who if isinstance(who, str) else who.account):
            return await self.call(function, *arguments)

    async def probe(self) -> float:
        """Measure how long the store takes to answer, in seconds; StoreError if it does not.

        In a thread of its own: a store that hangs has one question open, not many.
        """
        if self._probe is None or self._probe.done():
            loop = asyncio.get_running_loop()
            self._probe = loop.run_in_executor(self._prober, self._ask)
        try:
            return await asyncio.wait_for(asyncio.shield(self._probe), _PROBE_TIMEOUT_S)
        except TimeoutError:
            raise StoreUnreachable(
                f"{self.store.url} has not answered within {_PROBE_TIMEOUT_S:.0f}s"
            ) from None

    def _ask(self) -> float:
        began_at = time.perf_counter()
        self.store.last_event()
        return time.perf_counter() - began_at

    def close_streams(self) -> None:
        """Let all that wait for events end, so that the server can."""
        self.hub.close()
        self.bells.close()

    def close(self) -> None:
        """Let go of the threads and the store."""
        self.close_streams()
        self._watcher.stop()
        self.timekeeper.stop()
        for each in self._passing:
            each.cancel()
        with suppress(TimeoutError):  # a store that is away is not waited for
            self._doorkeeper.submit(self._write_uses).result(_PROBE_TIMEOUT_S)
        self._doorkeeper.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._prober.shutdown(wait=False, cancel_futures=True)
        self.audit.close()
        self.store.close()
