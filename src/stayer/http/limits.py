"""How much anybody may take of a server, before and after it is known who they are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

from stayer.http.problem import Problem


class Limits(Struct, frozen=True, kw_only=True):
    """Sizes are bytes, times are seconds."""

    connections: int = 4000
    """In all; less if the machine gives fewer descriptors. Where there are more, those that wait
    for a request are closed, the oldest of the busiest address first.
    """
    connections_by_address: int = 250
    """Not of this machine, nor of trusted proxies."""
    local_too: bool = False
    """Whether limits by address hold for addresses of this machine, too."""
    header: int = 64_000
    """The request line and all header fields together."""
    header_fields: int = 200
    header_time: float = 10.0
    """From its first byte, or the beginning of the connection, to its end."""
    body_silence: float = 30.0
    """How long nothing may come of a body that is waited for."""
    body_rate: float = 1000.0
    """Bytes a second that a body has to come with, on average, after `body_silence`."""
    stall_time: float = 5.0
    """A connection that has read nothing of its answer for so long makes room for others."""
    idle_time: float = 75.0
    """Of a connection between two requests, or while nothing is read of an answer. Longer than a
    proxy's own, so that it is the proxy who closes it.
    """
    answer_rate: float = 1000.0
    """Bytes a second that an answer has to be read with, on average, after `idle_time`."""
    pipelined: int = 32
    """Requests that are sent before the first one is answered."""
    login_body: int = 4_000
    bodies: int = 256_000_000
    """All bodies that are being received, in all and by token."""
    bodies_by_token: int = 64_000_000
    values: int = 2_000_000
    """In one body: numbers, texts, lists and objects take more memory than they have bytes."""
    requests_by_token: int = 128
    """That wait for the store at once; half of what may wait in all."""
    streams: int = 1000
    """Answers that take long: streams of events, logs, and requests that wait for something. In
    all, by token with its sessions, and by address, unless it is of this machine. Never more than
    three quarters of the connections in all, and half of those by token.
    """
    streams_by_token: int = 200
    streams_by_address: int = 250


def is_local(address: str) -> bool:
    """Return whether this is an address of the machine itself."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def client_of(address: str) -> str:
    """What an address is counted as: of IPv6, one customer has 2^64 of them."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Address(int(found) >> 64 << 64))
    return address


class Streams:
    """The streams that are open. Whatever they are, there are connections left for the others."""

    def __init__(self, limits: Limits, connections: int) -> None:
        self._limits = limits
        self._most = max(1, min(limits.streams, connections * 3 // 4))
        self._most_by_token = min(limits.streams_by_token, (self._most + 1) // 2)
        self.open = 0
        self._by: Counter[str] = Counter()

    def begin(self, token: str, address: str) -> None:
        """Count one more; Problem if there are too many."""
        limits = self._limits
        if self.open >= self._most:
            raise Problem("busy", "too many streams are open: close some", {"retry-after": "30"})
        if self._by[f"token {token}"] >= self._most_by_token:
            raise _too_many(self._most_by_token, "token")
        few = limits.local_too or not is_local(address)
        address = client_of(address)
        if few and self._by[address] >= limits.streams_by_address:
            raise _too_many(limits.streams_by_address, "address")
        self.open += 1
        self._by.update((f"token {token}", address))

    def end(self, token: str, address: str) -> None:
        """Count one less."""
        self.open -= 1
        for key in (f"token {token}", client_of(address)):
            self._by[key] -= 1
            if not self._by[key]:
                del self._by[key]


def _too_many(number: int, what: str) -> Problem:
    return Problem(
        "too-many-streams",
        f"{number} streams are open, or requests wait, for this {what}: close some",
        {"retry-after": "30"},
    )  # fmt: skip


class Bodies:
    """How much of bodies is in memory: from the first byte until the request is answered."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: Counter[str] = Counter()
        self._sum = 0

    @contextmanager
    def hold(self, token: str) -> Iterator[Callable[[int], None]]:
        """What is called with so many bytes more counts them until the end; Problem if that is too
        much.
        """
        size = 0

        def more(bytes: int) -> None:
            nonlocal size
            self._take(token, bytes)
            size += bytes

        try:
            yield more
        finally:
            self._give_back(token, size)

    def _take(self, token: str, size: int) -> None:
        if self._sum + size > self._limits.bodies:
            raise _too_much("large requests are on their way")
        if self._held[token] + size > self._limits.bodies_by_token:
            raise _too_much("large requests of this token are on their way")
        self._sum += size
        self._held[token] += size

    def _give_back(self, token: str, size: int) -> None:
        self._sum -= size
        self._held[token] -= size
        if not self._held[token]:
            del self._held[token]


class Requests:
    """How many requests wait for the store, by token."""

    def __init__(self, limits: Limits, at_once: int) -> None:
        """Of one token, `at_once` ask the store while the others wait."""
        self._most = limits.requests_by_token
        self._at_once = at_once
        self._waiting: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def turn(self, token: str) -> AsyncIterator[None]:
        """Wait until this token may ask for something more; Problem if too many wait already."""
        if self._waiting[token] >= self._most:
            raise _too_much("requests of this token at once")
        self._waiting[token] += 1
        try:
            async with self._turns.setdefault(token, asyncio.Semaphore(self._at_once)):
                yield
        finally:
            self._waiting[token] -= 1
            if not self._waiting[token]:
                del self._waiting[token], self._turns[token]


def _too_much(what: str) -> Problem:
    return Problem(
        "busy", f"too many {what}: send it again", {"retry-after": "1", "connection": "close"}
    )
