"""Connections, and what they may take before anybody knows whose they are.

uvicorn waits for a request as long as a client likes, and takes headers of any size. Here each
connection has a time by which it has to get on, and one watch looks at all of them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from stayer.http.limits import Limits, client_of, is_local
from stayer.http.problem import KINDS, MEDIA, URN

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.config import Config
    from uvicorn.server import ServerState

logger = logging.getLogger(__name__)

_RESERVED = 100
"""Descriptors for the store, files and whatever else the server opens."""
_NEVER = float("inf")


class _Refused(Exception):
    """A request that is not to be read on: lets the parser stop."""


class Connections:
    """All connections of one server."""

    def __init__(self, limits: Limits, trusted: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self._trusted = trusted
        self.most = min(limits.connections, max(10, raise_descriptors() - _RESERVED))
        """So many may be open."""
        self._open: dict[Connection, None] = {}
        """The oldest first."""
        self._by_address: Counter[str] = Counter()
        self._watch: asyncio.TimerHandle | None = None

    def protocol(self) -> type[HttpToolsProtocol]:
        """Make the class that uvicorn uses for each connection."""
        return type("LimitedConnection", (Connection,), {"room": self})

    def add(self, connection: Connection) -> bool:
        """Whether there is room for one more. One that only waits for a request makes room, and so
        does one that does not read.
        """
        address = connection.address
        few = address not in ("", *self._trusted) and (
            self.limits.local_too or not is_local(address)
        )
        counted = connection.counted_as
        if few and self._by_address[counted] >= self.limits.connections_by_address:
            if not self._make_room(counted):
                return False
        elif len(self._open) >= self.most and not self._make_room(None):
            return False
        self._open[connection] = None
        self._by_address[counted] += 1
        if self._watch is None:
            self._look_later(connection.loop)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed, or about to be."""
        if connection not in self._open:
            return
        del self._open[connection]
        counted = connection.counted_as
        self._by_address[counted] -= 1
        if not self._by_address[counted]:
            del self._by_address[counted]

    def _make_room(self, address: str | None) -> bool:
        """Drop the oldest that can be spared, of this address or else of the one with the most."""
        spared = [each for each in self._open if each.can_be_spared]
        if address is None and spared:
            address = Counter(each.counted_as for each in spared).most_common(1)[0][0]
        for each in spared:
            if each.counted_as == address:
                each.drop()
                return True
        return False

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        limits = self.limits
        shortest = min(limits.header_time, limits.body_silence, limits.idle_time)
        self._watch = loop.call_later(min(1.0, shortest / 4), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has not got on in time."""
        self._watch = None
        now = loop.time()
        for connection in [each for each in self._open if each.is_late(now)]:
            connection.drop()
        if self._open:
            self._look_later(loop)


class _Wire:
    """A transport that counts what is written, and takes nothing more once it closes: what is still
    being done for a client that is gone would fail there, which is nobody's fault.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.written = 0

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self.written += len(data)
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """One of them."""

    room: Connections

    def __init__(self, config: Config, server_state: ServerState, *rest: Any, **more: Any) -> None:
        super().__init__(config, server_state, *rest, **more)
        self._limits = self.room.limits
        self.address = self.counted_as = ""
        self._waits = True
        """For a whole request: nothing is being done for it."""
        self._sent = 0
        """So many bytes of answers have left, at the last look."""
        self._sent_at = 0.0
        """When that was less than now."""
        self._unread_since: tuple[float, int] | None = None
        """Since when the client has something to read, and how much had left then."""
        self._running: RequestResponseCycle | None = None
        self._held: tuple[RequestResponseCycle, ASGI3Application] | None = None
        """The next request, which waits until answers before it are read."""
        self._until = _NEVER
        """When it has to have got on."""
        self._header = 0
        """So many bytes have come of a header that has not ended."""
        self._in_header = True
        self._has_begun = False
        """A request has begun that is not understood yet."""
        self._body_due = False
        """A body is on its way."""
        self._body_begun = 0.0
        self._body_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._wire = _Wire(transport)
        super().connection_made(cast(asyncio.Transport, self._wire))
        self.address = self.client[0] if self.client else ""
        self.counted_as = client_of(self.address)
        if not self.room.add(self):
            self._refuse("busy", "too many connections are open: try again", retry_after=5)
            return
        self._until = self.loop.time() + self._limits.header_time

    def connection_lost(self, exc: Exception | None) -> None:
        self.room.remove(self)
        # uvicorn tells only the last request that has come, not the one that is being answered.
        waiting = [cycle for cycle, _ in self.pipeline]
        for cycle in (self._running, *waiting):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        self._held = None
        super().connection_lost(exc)

    @property
    def can_be_spared(self) -> bool:
        """Whether nobody is kept from an answer if it is closed, but who does not read it."""
        now = self.loop.time()
        if self._note_unread(now):
            return now - self._sent_at >= self._limits.stall_time
        return self._waits

    def drop(self) -> None:
        """Close it without a word."""
        self.room.remove(self)
        if self.transport.get_write_buffer_size():
            # Else the kernel would go on offering what it has of an answer that nobody reads.
            with suppress(OSError):
                wire = self.transport.get_extra_info("socket")
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def is_late(self, now: float) -> bool:
        """Return whether it has not got on in time."""
        was_unread = self._unread_since is not None
        if self._note_unread(now):
            return self._reads_too_slowly(now)
        if was_unread and self._waits:
            self._until = max(self._until, now + self._limits.header_time)
        if self.flow is not None and self.flow.read_paused:
            return False  # it is the server that does not read
        return now >= self._until

    def _note_unread(self, now: float) -> bool:
        """Note whether there is something to send that even the kernel has no room for."""
        unread = self.transport.get_write_buffer_size()
        if not unread:
            self._unread_since = None
            return False
        sent = self._wire.written - unread - _bytes_queued(self.transport)
        if self._unread_since is None:
            self._unread_since = now, sent
            self._sent, self._sent_at = sent, now
        elif sent > self._sent:
            self._sent, self._sent_at = sent, now
        return True

    def _reads_too_slowly(self, now: float) -> bool:
        assert self._unread_since is not None
        limits = self._limits
        since, before = self._unread_since
        slowest = since + limits.idle_time + (self._sent - before) / limits.answer_rate
        return now >= min(self._sent_at + limits.idle_time, slowest)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin with a request, unless answers before it are not read: nobody makes us work, and
        keep in memory what comes of it, for nothing.
        """
        if self.flow.write_paused:
            self._held = cycle, app
            return
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._held is not None and not self.transport.is_closing():
            held, self._held = self._held, None
            self._start_asgi_task(*held)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_header:
            if self._waits and not self._header:
                self._until = min(self._until, self.loop.time() + self._limits.header_time)
            self._header += len(data)
        super().data_received(data)
        if self._in_header and self._header > self._limits.header:
            self._refuse_header()
        elif self._body_due and not self.cycle.response_complete:
            self._wait_for_body(len(data))

    def _wait_for_body(self, more: int) -> None:
        limits = self._limits
        now = self.loop.time()
        self._body_size += more
        slowest = self._body_begun + limits.body_silence + self._body_size / limits.body_rate
        self._until = min(now + limits.body_silence, slowest)

    def on_message_begin(self) -> None:
        self._has_begun = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self._limits.header_fields:
            self._refuse_header()
            raise _Refused

    def on_headers_complete(self) -> None:
        if self._header > self._limits.header and self._size() > self._limits.header:
            self._refuse_header()
            raise _Refused
        if not self.url.startswith(b"/") and not self._names_one_host():
            self._refuse("bad-request", "the request names two hosts: send one")
            raise _Refused
        self._in_header, self._has_begun, self._header = False, False, 0
        self._body_due = True
        self._body_begun, self._body_size = self.loop.time(), 0
        super().on_headers_complete()
        if len(self.pipeline) > self._limits.pipelined:
            self._refuse("bad-request", "too many requests before the first answer")
            raise _Refused

    def _size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _names_one_host(self) -> bool:
        """Return whether an absolute URI (`GET http://host/path`) means the host of the header."""
        _, _, rest = self.url.partition(b"://")
        named = rest.partition(b"/")[0].partition(b"?")[0]
        return [named.lower()] == [v.lower() for name, v in self.headers if name == b"host"]

    def on_message_complete(self) -> None:
        self._body_due, self._in_header = False, True
        super().on_message_complete()
        if self.cycle.response_complete and not self.pipeline:
            self._wait_for_request()
        else:
            self._waits, self._until = False, _NEVER

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline or not self.cycle.response_complete:
            return
        if self._body_due:  # answered before the body has come: it may end, soon
            self._waits = True
            self._until = self.loop.time() + self._limits.header_time
        elif not self.transport.is_closing():
            self._wait_for_request()

    def _wait_for_request(self) -> None:
        self._waits = True
        self._unset_keepalive_if_required()  # the watch has an eye on it
        time = self._limits.header_time if self._has_begun else self._limits.idle_time
        self._until = self.loop.time() + time

    def _refuse_header(self) -> None:
        self._refuse("header-too-large", f"the limit is {self._limits.header:,} bytes: send less")

    def _refuse(self, kind: str, detail: str, retry_after: int | None = None) -> None:
        """Say why, and close: nothing more is read. Counted until all is sent that was said."""
        if self.transport.is_closing():
            return
        status, title = KINDS[kind]
        problem = {"type": URN + kind, "title": title, "status": status, "detail": detail}
        content = msgspec.json.encode(problem)
        lines = [
            f"HTTP/1.1 {status} {title.rstrip('.')}",
            f"content-type: {MEDIA}",
            f"content-length: {len(content)}",
            "cache-control: no-store",
            "connection: close",
        ]
        if retry_after is not None:
            lines.append(f"retry-after: {retry_after}")
        self.transport.write("\r\n".join((*lines, "", "")).encode() + content)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():  # else it was refused in words of ours
            self._refuse("bad-request", "this is no HTTP request")


def _bytes_queued(transport: asyncio.Transport) -> int:
    """How many bytes the kernel keeps that the other side has not taken: megabytes, of which a slow
    reader reads for minutes before the kernel wants more from us.
    """
    if not sys.platform.startswith("linux"):
        return 0
    import fcntl
    import termios

    try:
        wire = transport.get_extra_info("socket")
        found = fcntl.ioctl(wire.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    except (OSError, ValueError):
        return 0
    return int.from_bytes(found, sys.byteorder)


def raise_descriptors() -> int:
    """Have as many descriptors as the machine allows; returns how many."""
    if os.name != "posix":
        return 1024
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return 65536 if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) != errno.EPERM:
            logger.info("the limit of open files stays at %d: %s", soft, error)
        return soft
    return wanted
