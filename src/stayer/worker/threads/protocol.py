"""What worker and pool say to each other, over a pair of sockets."""

from __future__ import annotations

import socket
import threading
from multiprocessing.connection import Connection
from typing import TypeAlias

import msgspec
from msgspec import Struct

from stayer.core.decoding import msgpack_decoder
from stayer.core.model import Report
from stayer.core.safe_text import LogLevel
from stayer.core.worker_model import Orders


class Setup(Struct, frozen=True, tag=True, kw_only=True):
    """From the worker, first of all: what the pool is to do, and in whose name."""

    store: str
    """The URL with its password: it stays out of command lines."""
    worker: str
    app: str
    queues: tuple[str, ...]
    confined: tuple[str, ...]
    """Those of them that it is to take from at first (see Confine)."""
    evenly: bool
    threads: int
    lease: float
    time_limit: float | None
    state: str
    """The state directory."""
    pings: bool = False
    """It understands a Pong. An older worker, whose code was upgraded while it runs, does not: it
    would listen no more."""
    log_level: LogLevel = "info"
    token: str | None = None
    """For a store that is a server."""


class News(Struct, frozen=True, tag=True):
    """From the pool: for the next beat, or for one at once."""

    report: Report
    number: int
    urgent: bool = False


class NewsDelivered(Struct, frozen=True, tag="Delivered"):
    """From the worker: the store has all news up to this number, but for some."""

    number: int
    but: tuple[int, ...] = ()


class Ask(Struct, frozen=True, tag=True):
    """From the worker: orders for a task."""

    orders: Orders


class Finish(Struct, frozen=True, tag=True):
    """From the worker: take no more, hand back what has not begun, end when the rest has."""

    stop: bool
    """Let what runs know that it should stop."""


class Change(Struct, frozen=True, tag=True):
    """From the worker: an operator wants it to take from these queues (as far as Confine lets it),
    and to run so many at once.
    """

    queues: tuple[str, ...]
    threads: int


class Confine(Struct, frozen=True, tag=True):
    """From the worker: begin nothing of other queues than these from now on."""

    number: int
    queues: tuple[str, ...]


class ConfineDone(Struct, frozen=True, tag="Confined"):
    """From the pool: nothing of other queues runs any more."""

    number: int


class Ping(Struct, frozen=True, tag=True):
    """From the worker: are you there? Answered by the thread that hears it."""

    number: int


class Pong(Struct, frozen=True, tag=True):
    """From the pool: its threads can run. Number 0: it is ready, and begins."""

    number: int


Message: TypeAlias = (
    Setup | News | NewsDelivered | Ask | Finish | Change | Confine | ConfineDone | Ping | Pong
)

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgpack_decoder(Message)


class Link:
    """One end. Several threads may send, one receives."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)
        self._sending = threading.Lock()

    @property
    def descriptor(self) -> int:
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """Send a message; raises OSError if nobody is at the other end."""
        with self._sending:
            self._connection.send_bytes(_encode(message))

    def receive(self) -> Message | None:
        """Receive the next message; None if there will be no more. None if there will be no more.
        One of a kind that only a newer version knows is passed over: worker and pool may be of
        different versions.
        """
        while True:
            try:
                return _decoder.decode(self._connection.recv_bytes())
            except msgspec.ValidationError:
                continue
            except (EOFError, OSError):
                return None

    def close(self) -> None:
        self._connection.close()


def pair() -> tuple[Link, int]:
    """Our end, and the descriptor of the other one."""
    ours, theirs = socket.socketpair()
    return Link(ours.detach()), theirs.detach()
