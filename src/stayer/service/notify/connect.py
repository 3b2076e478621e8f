"""A connection to a receiver: to an address that may be asked, and over at a deadline."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

CONNECT_TIMEOUT_S = 5.0
"""How long an address may take to answer at all, in seconds."""

MayGo: TypeAlias = Callable[[str, Sequence[str]], None]
"""Raises for a host, with these addresses, that may not be asked."""


@contextmanager
def connect(
    host: str, port: int, has_tls: bool, deadline: float, may_go: MayGo | None = None
) -> Iterator[socket.socket]:
    """Open a connection that ends at the deadline, whatever the other side does."""
    # Looked up once: a name that means something else a moment later leads nowhere else.
    addresses = _addresses(host, port)
    if may_go is not None:
        may_go(host, addresses)
    with _connect_to_any(addresses, port, deadline) as plain, _end_at(plain, deadline):
        if not has_tls:
            yield plain
            return
        with ssl.create_default_context().wrap_socket(plain, server_hostname=host) as secured:
            yield secured


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _connect_to_any(addresses: Sequence[str], port: int, deadline: float) -> socket.socket:
    """Find the first address that answers."""
    problem: OSError = OSError("it has no address")
    for address in addresses:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            stream = socket.create_connection((address, port), min(CONNECT_TIMEOUT_S, left))
        except OSError as error:
            problem = error
            continue
        stream.settimeout(max(0.1, deadline - time.monotonic()))
        return stream
    raise problem


@contextmanager
def _end_at(stream: socket.socket, deadline: float) -> Iterator[None]:
    """End a stream at the deadline: a time-out is for each byte, and one who sends a byte now and
    then would hold us for ever.
    """
    same = socket.socket(fileno=os.dup(stream.fileno()))

    def end() -> None:
        with suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        same.close()
