"""Connections to a Redis server: a pool, scripts, and the server's errors in our words."""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from hiredis import pack_command
from msgspec import Struct
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    DataError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from stayer.core.errors import BadInput, StoreUnreachable, StoreUnusable
from stayer.stores.redis.address import Address
from stayer.stores.redis.scripts import Script, script

_IDLE = 8
"""How many unused connections are kept."""

_IN_SCRIPT = re.compile(
    r"Error running script .*?@user_script: \d+: (?P<said>-?(?P<word>[A-Z]+) ?.*)"
)
_REFUSALS: dict[str, type[ResponseError]] = {"OOM": OutOfMemoryError, "READONLY": ReadOnlyError}

_inherited: list[Any] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class Said(Exception):
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


class Moved(StoreUnusable):
    """Another node of a cluster has what was asked for."""


_WORDS = ("LEASELOST", "UNKNOWN", "REFUSED")


class Server:
    """A server, used by many threads, and again after a fork."""

    def __init__(self, address: Address, clock: Callable[[], float] | None) -> None:
        self.address = address
        self._clock = clock
        self._idle: list[Any] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    def run(self, name: str, *arguments: Any) -> Any:
        """What a script answers; raises Said for what it refuses."""
        return self.run_at(self.address.prefix, (), name, *arguments)

    def run_at(self, prefix: str, keys: tuple[str, ...], name: str, *arguments: Any) -> Any:
        """The same below another prefix; the keys say which node of a cluster is meant."""
        wanted = script(name)
        now = "" if self._clock is None else repr(float(self._clock()))
        given = (len(keys), *keys, prefix, now, *arguments)
        replicas = self.address.replicas if wanted.confirmed else 0
        with self.connection() as connection:
            try:
                answer, confirmed = self._evaluated(connection, wanted, given, replicas)
            except ResponseError as error:
                word, _, details = str(error).partition(" ")
                if word in _WORDS:
                    raise Said(word, details) from None
                raise _plain(error) from None
        if confirmed < replicas:
            raise self._unconfirmed(name, confirmed)
        return answer

    def run_many(self, prefix: str, calls: Sequence[Call]) -> list[Any]:
        """Several scripts, each with a key of its own, in one round trip; a Moved stands for the
        answer where another node has it.
        """
        now = "" if self._clock is None else repr(float(self._clock()))
        scripts = [script(call.name) for call in calls]
        given = [(1, call.key, call.prefix or prefix, now, *call.arguments) for call in calls]
        replicas = self.address.replicas if any(each.confirmed for each in scripts) else 0
        with self.connection() as connection:
            commands = [
                ("EVALSHA", wanted.digest, *arguments)
                for wanted, arguments in zip(scripts, given, strict=True)
            ]
            answers = _ask_many(connection, commands)
            unknown = [at for at, each in enumerate(answers) if isinstance(each, NoScriptError)]
            again = [("EVAL", scripts[at].text, *given[at]) for at in unknown]
            for at, answer in zip(unknown, _ask_many(connection, again), strict=True):
                answers[at] = answer
            confirmed = self._confirmations(connection) if replicas else 0
        if confirmed < replicas:
            raise self._unconfirmed(calls[0].name, confirmed)
        for answer in answers:
            if isinstance(answer, ResponseError) and not isinstance(answer, MovedError):
                with translated(self.address.url):
                    raise answer
        return [
            _moved(self.address.url, answer) if isinstance(answer, MovedError) else answer
            for answer in answers
        ]

    def ask(self, *command: Any) -> Any:
        """What the server answers to a plain command."""
        with self.connection() as connection:
            return _ask(connection, *command)

    def now(self) -> float:
        """The store's clock."""
        if self._clock is not None:
            return float(self._clock())
        seconds, micros = self.ask("TIME")
        return int(seconds) + int(micros) / 1000000

    def connection(self) -> _Lent:
        """A connection of one's own for a while."""
        return _Lent(self)

    def open_connection(self) -> Any:
        """A new connection that belongs to the caller."""
        with translated(self.address.url):
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

    def _confirmations(self, connection: Any) -> int:
        patience = round(self.address.confirming * 1000)
        return int(_ask(connection, "WAIT", self.address.replicas, patience))

    def _unconfirmed(self, name: str, confirmed: int) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self.address.url} has done what was asked ({name}), but {confirmed} of "
            f"{self.address.replicas} replicas confirmed it within {self.address.confirming:g} s: "
            "a failover can lose it. Ask again when they are back; to submit a task again under "
            "the same id is harmless"
        )

    def _forget(self) -> None:
        """What a fork has copied is the parent's: neither to be used nor to be closed here."""
        _inherited.extend(self._idle)
        self._idle = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    def _evaluated(
        self, connection: Any, wanted: Script, given: tuple[Any, ...], replicas: int
    ) -> tuple[Any, int]:
        """What a script answers, and how many replicas have confirmed it, if they have to."""
        patience = round(self.address.confirming * 1000)
        try:
            return _confirmed(connection, replicas, patience, "EVALSHA", wanted.digest, *given)
        except NoScriptError:  # so nothing was done yet
            return _confirmed(connection, replicas, patience, "EVAL", wanted.text, *given)


class _Lent:
    """A connection for a while. Not by `contextmanager`, which takes as long as much of the rest of
    a call.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._url = server.address.url

    def __enter__(self) -> Any:
        with translated(self._url):
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
            raise _being_replaced(self._url, error) from error
        _raise_translated(self._url, error)


def _was_answered(error: BaseException) -> bool:
    """The connection is fine. If it is a read-only one, another server is the primary now."""
    return isinstance(error, Said | ResponseError) and not isinstance(error, ReadOnlyError)


def _confirmed(connection: Any, replicas: int, patience: int, *command: Any) -> tuple[Any, int]:
    """The answer, and how many replicas have it; both questions go out at once."""
    if not replicas:
        return _ask(connection, *command), 0
    questions = [command, ("WAIT", replicas, patience)]
    connection.send_packed_command(connection.pack_commands(questions))
    try:
        answer = connection.read_response()
    except ResponseError:
        with suppress(ResponseError):
            connection.read_response()
        raise
    return answer, connection.read_response()


def _ask_many(connection: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answers, errors among them."""
    connection.send_packed_command(connection.pack_commands(commands))
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(connection.read_response())
        except ResponseError as error:
            answers.append(error)
    return answers


def _ask(connection: Any, *command: Any) -> Any:
    connection.send_packed_command((_packed(command),))
    return connection.read_response()


def _packed(command: tuple[Any, ...]) -> bytes:
    """As it is sent. The client's own way to do it looks at each argument first."""
    try:
        packed: bytes = pack_command(command)
        return packed
    except TypeError as error:
        raise DataError(str(error)) from None


def descriptor(connection: Any) -> int:
    """The socket, to be waited for."""
    return int(connection._sock.fileno())


def _plain(error: ResponseError) -> ResponseError:
    """What a server refuses within a script, as it refuses it elsewhere: before 7.0 its words are
    hidden in others.
    """
    found = _IN_SCRIPT.match(str(error))
    if found is None:
        return error
    return _REFUSALS.get(found["word"], ResponseError)(found["said"].removeprefix("-"))


def _is_quiet(connection: Any) -> bool:
    """Nothing to read on an idle connection: what there was would be its end."""
    poll = select.poll()
    poll.register(descriptor(connection), select.POLLIN)
    return not poll.poll(0)


def _moved(url: str, error: RedisError) -> Moved:
    return Moved(f"{url} is a node of a cluster ({error}): write redis+cluster://host:port")


def _being_replaced(url: str, error: RedisError) -> StoreUnreachable:
    return StoreUnreachable(f"{url} is being replaced by another server: try again ({error})")


class translated:  # noqa: N801  # used like a function
    """The server's errors as ours, with what to do."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        _raise_translated(self._url, error)


def _raise_translated(url: str, error: BaseException | None) -> None:
    match error:
        case UnicodeEncodeError() | DataError():
            raise BadInput(f"{url} can't keep this value: {error}") from error
        case MovedError():
            raise _moved(url, error) from error
        case RedisError():
            raise _translation(url, error) from error
        case OSError():
            raise StoreUnreachable(f"{url} can't be reached: {error}") from error
        case _:
            return


def _translation(url: str, error: RedisError) -> StoreUnreachable | StoreUnusable:
    said = str(error).rstrip(".")
    match error:
        case AuthenticationError() | AuthorizationError() | NoPermissionError():
            return StoreUnusable(
                f"{url} does not let this user in, or not do this ({said}): mend the user and "
                "password in the URL, or the user's rights"
            )
        case BusyLoadingError():
            return StoreUnreachable(f"{url} is still loading its data: try again in a moment")
        case MasterDownError():
            return StoreUnreachable(f"{url} is a replica that has lost its primary: {said}")
        case TimeoutError():
            return StoreUnreachable(
                f"{url} did not answer in time ({said}): it may have done what was asked, or not"
            )
        case ConnectionError() if "CERTIFICATE_VERIFY_FAILED" in said:
            return StoreUnreachable(
                f"{url} has a certificate that is not trusted here ({said}): name the file of who "
                "signed it in the URL, ssl_ca_certs=…, or mend it"
            )
        case ConnectionError():
            return StoreUnreachable(f"{url} can't be reached: {said}. Is the server running?")
        case OutOfMemoryError():
            return StoreUnusable(
                f"{url} has no memory left: nothing was changed. Raise maxmemory, or forget tasks "
                "that have ended, for example with `stayer purge --older 1d`"
            )
        case AskError() | TryAgainError():
            return StoreUnreachable(
                f"{url} is moving this to another node ({said}): try again in a moment"
            )
        case ClusterDownError():
            return StoreUnreachable(f"{url} has nobody for a part of the keys ({said})")
        case ReadOnlyError():
            return StoreUnusable(f"{url} is a read-only replica: give the URL of its primary")
        case _:
            return _by_first_word(url, said)


def _by_first_word(url: str, said: str) -> StoreUnreachable | StoreUnusable:
    if "user executing the script" in said or said.startswith("ACL failure in script"):
        return StoreUnusable(
            f"{url} does not let this user do all that Stayer does ({said}): mend the user's "
            "rights, and do it again"
        )
    match said.split(" ", 1)[0].split(":", 1)[0]:
        case "NOREPLICAS":
            return StoreUnreachable(
                f"{url} has fewer replicas than min-replicas-to-write asks for: nothing was changed"
            )
        case "BUSY":
            return StoreUnreachable(f"{url} is busy with a script of somebody: try again later")
        case "MISCONF":
            return StoreUnusable(
                f"{url} can't write to its disk, and therefore changes nothing: {said}"
            )
        case _:
            return StoreUnusable(f"{url}: {said}")
