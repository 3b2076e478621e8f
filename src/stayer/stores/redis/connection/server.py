"""Connections to a Redis server: a pool, and scripts."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from hiredis import pack_command
from msgspec import Struct
from redis.exceptions import (
    DataError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    ResponseError,
)

from stayer.core.errors import StoreUnusable
from stayer.store import Meanwhile
from stayer.stores.redis.connection.url import Address
from stayer.stores.redis.errors import (
    being_replaced,
    moved_error,
    plain,
    raise_translated,
    translated,
)
from stayer.stores.redis.replica_acks import Replicas
from stayer.stores.redis.scripts import CHANGES, Script, script

_IDLE = 8
"""How many unused connections are kept."""

_inherited: list[Any] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class ScriptRefusal(Exception):
    """What a script refuses, in its own words: `WORD details`."""

    def __init__(self, word: str, details: str) -> None:
        self.word, self.details = word, details
        super().__init__(f"{word} {details}")


class Call(Struct, frozen=True):
    """A script to be run where a key is."""

    key: str
    name: str
    arguments: tuple[Any, ...]
    prefix: str | None = None
    """Below which its keys are, if not below that of all."""
    waits: bool = True
    """For replicas, if that is what its script wants."""


_WORDS = ("LEASELOST", "UNKNOWN", "REFUSED")


class Server:
    """A server, used by many threads, and again after a fork."""

    def __init__(self, address: Address, clock: Callable[[], float] | None) -> None:
        self.address = address
        self.replicas = Replicas(address)
        self._clock = clock
        self._idle: list[Any] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    def run(self, name: str, *arguments: Any, meanwhile: Meanwhile = None) -> Any:
        """What a script answers; raises ScriptRefusal for what it refuses."""
        return self.run_at(self.address.prefix, (), name, *arguments, meanwhile=meanwhile)

    def run_at(
        self,
        prefix: str,
        keys: tuple[str, ...],
        name: str,
        *arguments: Any,
        meanwhile: Meanwhile = None,
    ) -> Any:
        """Run a script below another prefix; the keys say which node of a cluster is meant."""
        wanted = script(name)
        now = "" if self._clock is None else repr(float(self._clock()))
        given = (len(keys), *keys, prefix, now, *arguments)
        patience = self.replicas.wait_s() if wanted.confirmed else None
        with self.connection(wanted.reads) as connection:
            try:
                answer, confirmed = self._evaluate(connection, wanted, given, patience, meanwhile)
            except ResponseError as error:
                word, _, details = str(error).partition(" ")
                if word in _WORDS:
                    raise ScriptRefusal(word, details) from None
                raise plain(error) from None
        self.replicas.check(confirmed, patience)
        return answer

    def run_each(self, name: str, calls: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """What a script answers to each of these, in their order. The server is at one while the
        next is made, and what it has answered before is used.
        """
        wanted = script(name)
        now = "" if self._clock is None else repr(float(self._clock()))
        sent: deque[tuple[Any, ...]] = deque()
        with self.connection() as connection:
            for arguments in calls:
                given = (0, self.address.prefix, now, *arguments)
                connection.send_packed_command((_pack(("EVALSHA", wanted.digest, *given)),))
                sent.append(given)
                if len(sent) > 1:
                    yield from _next_answers(connection, wanted, sent)
            while sent:
                yield from _next_answers(connection, wanted, sent)
            patience = self.replicas.wait_s() if wanted.confirmed else None
            confirmed = self._confirmations(connection, patience)
        self.replicas.check(confirmed, patience)

    def run_many(self, prefix: str, calls: Sequence[Call]) -> list[Any]:
        """Several scripts, each with a key of its own, in one round trip; a Moved stands for the
        answer where another node has it, a StoreUnusable where it failed.
        """
        now = "" if self._clock is None else repr(float(self._clock()))
        scripts = [script(call.name) for call in calls]
        given = [(1, call.key, call.prefix or prefix, now, *call.arguments) for call in calls]
        waits = any(call.waits and script(call.name).confirmed for call in calls)
        patience = self.replicas.wait_s() if waits else None
        with self.connection(all(each.reads for each in scripts)) as connection:
            commands = [
                ("EVALSHA", wanted.digest, *arguments)
                for wanted, arguments in zip(scripts, given, strict=True)
            ]
            answers = _ask_many(connection, commands)
            unknown = [at for at, each in enumerate(answers) if isinstance(each, NoScriptError)]
            again = [("EVAL", scripts[at].text, *given[at]) for at in unknown]
            for at, answer in zip(unknown, _ask_many(connection, again), strict=True):
                answers[at] = answer
            if all(isinstance(answer, ResponseError) for answer in answers):
                patience = None  # nothing was done here, perhaps because it is another's by now
            confirmed = self._confirmations(connection, patience)
        self.replicas.check(confirmed, patience)
        return [self._translate_answer(answer) for answer in answers]

    def _translate_answer(self, answer: Any) -> Any:
        if isinstance(answer, MovedError):
            return moved_error(self.address.url, answer)
        if isinstance(answer, ResponseError):
            try:
                with translated(self.address.url):
                    raise answer
            except StoreUnusable as error:
                return error
        return answer

    def ask(self, *command: Any) -> Any:
        """What the server answers to a plain command."""
        with self.connection(command[0] not in CHANGES) as connection:
            return _ask(connection, *command)

    def ask_many(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What it answers to plain commands that only read, in one round trip."""
        if not commands:
            return []
        with self.connection(True) as connection:
            answers = _ask_many(connection, commands)
        for answer in answers:
            if isinstance(answer, ResponseError):
                with translated(self.address.url):
                    raise answer
        return answers

    def change_if_unchanged(
        self, key: bytes, look: Callable[[], Sequence[tuple[Any, ...]]]
    ) -> bool:
        """Plain commands that `look` gives after a look at a key, all of them or none; False if
        somebody changed the key meanwhile.
        """
        with self.connection() as connection:
            _ask(connection, "WATCH", key)
            commands = look()
            if not commands:
                _ask(connection, "UNWATCH")
                return True
            *_, answer = _ask_many(connection, [("MULTI",), *commands, ("EXEC",)])
            if isinstance(answer, ResponseError):
                raise answer
        return answer is not None

    def now(self) -> float:
        """The store's clock."""
        if self._clock is not None:
            return float(self._clock())
        seconds, micros = self.ask("TIME")
        return int(seconds) + int(micros) / 1000000

    def connection(self, only_reads: bool = False) -> _Lent:
        """A connection of one's own for a while."""
        return _Lent(self, only_reads)

    def open_connection(self) -> Any:
        """A new connection that belongs to the caller."""
        with translated(self.address.url, opening=True):
            return self.address.open()

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        if self._pid != os.getpid():
            self._forget()
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.disconnect()

    def take(self) -> Any:
        """A connection that nobody else uses now."""
        if self._pid != os.getpid():
            self._forget()
        while True:
            with self._guard:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            connection.disconnect()
        return self.address.open()

    def put(self, connection: Any) -> None:
        """It is fine, and used no more."""
        with self._guard:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.disconnect()

    def can_confirm(self) -> bool:
        """Say whether as many replicas follow as have to confirm. It is asked as long as none have,
        and opens a connection in any case: raises if that can't be done.
        """
        with self.connection() as connection:
            if not self.replicas.wanted or self.replicas.confirm:
                return True
            return int(_ask(connection, *self.replicas.question(0.0))) >= self.replicas.wanted

    def _confirmations(self, connection: Any, patience: float | None) -> int:
        return 0 if patience is None else int(_ask(connection, *self.replicas.question(patience)))

    def _forget(self) -> None:
        """What a fork has copied is the parent's: neither to be used nor to be closed here."""
        _inherited.extend(self._idle)
        self._idle = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    def _evaluate(
        self,
        connection: Any,
        wanted: Script,
        given: tuple[Any, ...],
        patience: float | None,
        meanwhile: Meanwhile,
    ) -> tuple[Any, int]:
        """What a script answers, and how many replicas have confirmed it, if they have to."""
        by_digest, by_text = ("EVALSHA", wanted.digest, *given), ("EVAL", wanted.text, *given)
        if patience is None:
            try:
                return _ask(connection, *by_digest, meanwhile=meanwhile), 0
            except NoScriptError:  # so nothing was done yet
                return _ask(connection, *by_text), 0
        wait = self.replicas.question(patience)
        try:
            return _ask_with_wait(connection, by_digest, wait, meanwhile)
        except NoScriptError:
            return _ask_with_wait(connection, by_text, wait)


class _Lent:
    """A connection for a while. Not by `contextmanager`, which takes as long as much of the rest of
    a call.
    """

    def __init__(self, server: Server, only_reads: bool) -> None:
        self._server = server
        self._url = server.address.url
        self._only_reads = only_reads

    def __enter__(self) -> Any:
        with translated(self._url, opening=True):
            self._connection = self._server.take()
        return self._connection

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None or _was_answered(error):
            self._server.put(self._connection)
        else:
            self._connection.disconnect()
        if isinstance(error, ReadOnlyError) and self._server.address.moves:
            raise being_replaced(self._url, error) from error
        raise_translated(self._url, error, self._only_reads)


def _was_answered(error: BaseException) -> bool:
    """The connection is fine. If it is a read-only one, another server is the primary now."""
    return isinstance(error, ScriptRefusal | ResponseError) and not isinstance(error, ReadOnlyError)


def _ask_with_wait(
    connection: Any,
    command: tuple[Any, ...],
    wait: tuple[Any, ...],
    meanwhile: Meanwhile = None,
) -> tuple[Any, int]:
    """The answer, and how many replicas have it; both questions go out at once."""
    connection.send_packed_command(connection.pack_commands([command, wait]))
    if meanwhile is not None:
        meanwhile()
    try:
        answer = connection.read_response()
    except ResponseError:
        with suppress(ResponseError):
            connection.read_response()
        raise
    return answer, connection.read_response()


def _next_answers(connection: Any, wanted: Script, sent: deque[tuple[Any, ...]]) -> list[Any]:
    """To the first of what was sent; to all of it, if the server did not know the script."""
    given = sent.popleft()
    first = _read(connection)
    if not isinstance(first, ResponseError):
        return [first]
    answers = [first, *(_read(connection) for _ in sent)]
    commands = [given, *sent]
    sent.clear()
    for at, answer in enumerate(answers):
        if isinstance(answer, NoScriptError) and isinstance(first, NoScriptError):
            answers[at] = _answer(connection, "EVAL", wanted.text, *commands[at])
        if isinstance(answers[at], ResponseError):
            refused = plain(answers[at])
            others = answers[at + 1 :]
            vars(refused)["unsure"] = not all(isinstance(each, ResponseError) for each in others)
            raise refused
    return answers


def _answer(connection: Any, *command: Any) -> Any:
    """Ask a plain command; an error is an answer too."""
    connection.send_packed_command((_pack(command),))
    return _read(connection)


def _ask_many(connection: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answers, errors among them."""
    connection.send_packed_command(connection.pack_commands(commands))
    return [_read(connection) for _ in commands]


def _read(connection: Any) -> Any:
    """An answer, or an error in its place."""
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _ask(connection: Any, *command: Any, meanwhile: Meanwhile = None) -> Any:
    connection.send_packed_command((_pack(command),))
    if meanwhile is not None:
        meanwhile()
    return connection.read_response()


def _pack(command: tuple[Any, ...]) -> bytes:
    """Pack a command as it is sent. The client's own way looks at each argument first."""
    try:
        packed: bytes = pack_command(command)
        return packed
    except TypeError as error:
        raise DataError(str(error)) from None


def descriptor(connection: Any) -> int:
    """The socket, to be waited for."""
    return int(connection._sock.fileno())


def _is_quiet(connection: Any) -> bool:
    """Nothing to read on an idle connection: what there was would be its end."""
    poll = select.poll()
    poll.register(descriptor(connection), select.POLLIN)
    return not poll.poll(0)
