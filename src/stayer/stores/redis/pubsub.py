"""Waking up: a connection that listens, and a look at the marks now and then.

Who waits subscribes first and reads the marks afterwards, so nothing falls between. A message that
is lost (it is published, not kept) is made up for by the next look, a few seconds later at most.
A connection that is silent is asked for a sign of life, because a server that vanished with its
machine, or was replaced, says nothing.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from msgspec import Struct
from redis.exceptions import RedisError

from stayer.core.errors import StoreUnreachable
from stayer.core.model import Event
from stayer.stores.redis.connection.server import Server, descriptor
from stayer.stores.redis.errors import translated
from stayer.stores.redis.keys import key
from stayer.stores.redis.record import batch_of_events, event

REPAIR_S = 5.0
"""Look this often in any case, in seconds."""
_SILENCE_S = 3 * REPAIR_S
"""How much of it until a connection is asked whether it lives; until then looks see to the rest."""
_LOOKED_AT = 5000
"""How many events a script may look at before it lets others have their turn."""


class Line:
    """A connection that is subscribed to channels."""

    def __init__(self, url: str, connection: Any, channels: Iterable[str]) -> None:
        self._url = url
        self._connection = connection
        self.channels = frozenset(channels)
        self._pid = os.getpid()
        self._heard_at = time.monotonic()
        self._pinged_at: float | None = None

    @property
    def socket(self) -> int:
        """To be waited for."""
        return descriptor(self._connection)

    def read(self) -> list[tuple[str, str]]:
        """What is there without waiting. Raises StoreUnreachable when it breaks."""
        found: list[tuple[str, str]] = []
        try:
            while self._connection.can_read(0):
                kind, *parts = self._connection.read_response()
                self._heard_at, self._pinged_at = time.monotonic(), None
                if kind in (b"message", b"smessage"):
                    channel, text = parts
                    found.append((channel.decode(), text.decode(errors="replace")))
                elif kind == b"sunsubscribe":
                    raise ConnectionResetError("another node has what was listened to")
        except (RedisError, OSError) as error:
            if not found:
                self._give_up(error)
        return found

    def ask_for_life(self) -> None:
        """Ask a connection that was silent for long, and give it up if it does not answer."""
        now = time.monotonic()
        if now - self._heard_at < _SILENCE_S:
            return
        try:
            if self._pinged_at is None:
                self._pinged_at = now
                self._connection.send_command("PING")
            elif now - self._pinged_at >= REPAIR_S:
                raise TimeoutError("no sign of life")
        except (RedisError, OSError) as error:
            self._give_up(error)

    def close(self) -> None:
        """After a fork the connection is the parent's."""
        if self._pid == os.getpid():
            self._connection.disconnect()

    def _give_up(self, error: Exception) -> NoReturn:
        raise StoreUnreachable(
            f"{self._url} has left the connection that listens: {error}"
        ) from error


def subscribe(server: Server, questions: Sequence[Sequence[str]]) -> Line:
    """A connection on which a server has confirmed these: SUBSCRIBE or SSUBSCRIBE, and channels."""
    connection = server.open_connection()
    try:
        with translated(server.address.url):
            for question in questions:
                connection.send_command(*question)
                for _ in question[1:]:
                    connection.read_response()
    except BaseException:
        connection.disconnect()
        raise
    channels = (channel for question in questions for channel in question[1:])
    return Line(server.address.url, connection, channels)


def single_line(server: Server, channels: Sequence[str]) -> Callable[[], list[Line]]:
    """How to listen to one server."""
    return lambda: [subscribe(server, [("SUBSCRIBE", *channels)])]


class Ear:
    """Connections that are subscribed to channels; others are made when one breaks."""

    def __init__(self, open_lines: Callable[[], list[Line]]) -> None:
        self._open_lines = open_lines
        self._lines: list[Line] = []
        self.connect()
        self._rope, self._bell = socket.socketpair()
        self._rope.setblocking(False)
        self._bell.setblocking(False)

    def connect(self) -> None:
        """Subscribe, and be sure that it has been heard."""
        self._disconnect()
        self._lines = self._open_lines()

    @property
    def is_connected(self) -> bool:
        return bool(self._lines)

    def is_subscribed_to(self, channels: Iterable[str]) -> bool:
        """Whether it is subscribed to all of these."""
        subscriptions = {channel for line in self._lines for channel in line.channels}
        return subscriptions.issuperset(channels)

    def listen(self, timeout: float) -> list[tuple[str, str]] | None:
        """The messages that came (channel, text), as soon as there are some; None: it was rung.

        Raises StoreUnreachable when a connection breaks; it is to be connected again then.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                messages = [message for line in self._lines for message in line.read()]
                if messages:
                    return messages
                for line in self._lines:
                    line.ask_for_life()
            except StoreUnreachable:
                self._disconnect()
                raise
            left = max(0.0, deadline - time.monotonic())
            poll = select.poll()
            poll.register(self._bell, select.POLLIN)
            for line in self._lines:
                poll.register(line.socket, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(left * 1000)]
            if self._bell.fileno() in ready:
                with suppress(BlockingIOError):
                    self._bell.recv(4096)
                return None
            if not ready:
                return []

    def ring(self) -> None:
        """End `listen`, from another thread."""
        with suppress(BlockingIOError):  # then it rings already
            self._rope.send(b"!")

    def close(self) -> None:
        """Stop listening."""
        self._disconnect()
        self._rope.close()
        self._bell.close()

    def _disconnect(self) -> None:
        lines, self._lines = self._lines, []
        for line in lines:
            line.close()


class Marks(Struct):
    """What a waiter compares."""

    numbers: dict[str, str | None]
    """Channel → the number that was last published there; of a cluster, where it can be asked."""
    came_in: int
    """How many items came in from outside, and are not taken yet."""
    identity: str | None = None
    """What tells the store from others that share its channels, if that is known."""


class RedisWaiter:
    """Waits until there may be something new in some channels (see `Waiter`)."""

    def __init__(self, open_lines: Callable[[], list[Line]], marks: Callable[[], Marks]) -> None:
        self._ear = Ear(open_lines)
        self._marks = marks
        self._rung = False
        self._looked = time.monotonic()
        try:
            self._remember(marks())
        except BaseException:
            self._ear.close()
            raise

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._rung:
            if not self._ear.is_connected:
                self._ear.connect()
                self._look()
                break  # what came meanwhile was not heard
            left = REPAIR_S if deadline is None else min(REPAIR_S, deadline - time.monotonic())
            messages = self._listen(max(0.0, left))
            if messages is None or self._has_new(messages):
                break
            if time.monotonic() - self._looked >= REPAIR_S and self._look():
                break
            if deadline is not None and time.monotonic() >= deadline:
                return False
        self._rung = False
        return True

    def ring(self) -> None:
        self._rung = True
        self._ear.ring()

    def close(self) -> None:
        self._ear.close()

    def _listen(self, timeout: float) -> list[tuple[str, str]] | None:
        try:
            return self._ear.listen(timeout)
        except StoreUnreachable:
            return []  # and the next round connects again, or says that it can't

    def _has_new(self, messages: list[tuple[str, str]]) -> bool:
        """Whether one of them tells of something that was not seen. Another database of the server
        has the same channels: its messages are passed over. What does not say whose it is (an
        older Stayer's) may be anybody's, and so is no proof of what was seen here.
        """
        news = False
        for channel, text in messages:
            # Where no numbers are published, every message is news.
            if channel not in self._seen:
                news = True
                continue
            number, _, whose = text.partition(" ")
            if whose and self._identity is not None and whose != self._identity:
                continue
            news = news or self._seen[channel] != number
            if whose and whose == self._identity:
                self._seen[channel] = number
        return news

    def _remember(self, marks: Marks) -> None:
        self._seen, self._identity = marks.numbers, marks.identity

    def _look(self) -> bool:
        self._looked = time.monotonic()
        marks = self._marks()
        if not self._ear.is_subscribed_to(marks.numbers):
            self._ear.connect()  # a node of a cluster is back: listen there too
        changed = marks.numbers != self._seen
        self._remember(marks)
        return changed or marks.came_in > 0


def waiter_for(server: Server, worker: str | None, queues: Sequence[str]) -> RedisWaiter:
    """A waiter for queues and a worker. Who takes tasks hears of what comes in from outside too."""
    prefix = server.address.prefix
    names = list(dict.fromkeys(queues))
    numbered = [key("wake", prefix, queue=queue) for queue in names]
    numbered += [] if worker is None else [key("orders", prefix, worker=worker)]
    came_in = key("incoming", prefix)
    others = [came_in, f"__keyspace@{server.address.database}__:{came_in}"] if names else []

    def marks() -> Marks:
        of_worker, waiting, identity, *of_queues = server.run("mark", worker or "", *names)
        answers = [*of_queues, *([] if worker is None else [of_worker])]
        numbers = [None if each is None else each.decode() for each in answers]
        known = None if identity is None else identity.decode()
        return Marks(dict(zip(numbered, numbers, strict=True)), waiting, known)

    return RedisWaiter(single_line(server, numbered + others), marks)


def watch(server: Server, since: int, timeout: float, limit: int) -> list[Event]:
    """Events after a number, waiting for the first one."""
    deadline = time.monotonic() + timeout
    ear: Ear | None = None
    try:
        while True:
            since, events = _look_at_events(server, since, limit)
            left = deadline - time.monotonic()
            if events or left <= 0:
                return events
            if ear is None:
                # Listens before it looks once more, so that nothing falls between.
                ear = Ear(single_line(server, [key("events", server.address.prefix)]))
            elif ear.is_connected:
                with suppress(StoreUnreachable):
                    ear.listen(min(left, REPAIR_S))
            else:
                ear.connect()
    finally:
        if ear is not None:
            ear.close()


def _look_at_events(server: Server, since: int, limit: int) -> tuple[int, list[Event]]:
    """Up to where was looked, and what was found; past a long row of tasks that are gone."""
    while True:
        seen, packed = server.run("watch", since, limit, _LOOKED_AT)
        events = [event(each) for each in batch_of_events(packed)]
        if events or int(seen) == since:
            return since, events
        since = int(seen)
